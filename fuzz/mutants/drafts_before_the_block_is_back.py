"""The drafter runs while its block is still on its way home."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "go_on = self._await_home if state.at.is_coming_home else self._next_window"
REPLACEMENT = "go_on = self._next_window"
SOURCE = "lending.md 5, invariants 20 and 23"
