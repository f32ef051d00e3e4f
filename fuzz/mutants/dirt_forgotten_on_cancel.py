"""What a cancelled read wrote of the block does not go home."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "return self._close(read_until(state.at, state.chunk), None)"
REPLACEMENT = "return self._close(state.at, None)"
SOURCE = "lending.md 5, invariant 21"
