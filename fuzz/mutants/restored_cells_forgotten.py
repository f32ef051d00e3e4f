"""A loan is decided, and the prompt read, as if nothing had come back."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "return self._read(state.arrived(), state.request)"
REPLACEMENT = "return self._read(state.at, state.request)"
SOURCE = "lending.md 7, threshold tested before the parked-conversation lookup"
