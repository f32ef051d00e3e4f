"""A cancelled read takes its bytes back at once."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "return self._close(read_until(state.at, state.chunk), None)"
REPLACEMENT = "return self._settle(state.at)"
SOURCE = "lending.md 5, invariant 17"
