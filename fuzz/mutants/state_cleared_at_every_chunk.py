"""A second chunk, or a second turn, is read as if nothing came before it."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "cleared = clear_state(self.plan, lane.stream) if start == 0 else ()"
REPLACEMENT = "cleared = clear_state(self.plan, lane.stream)"
SOURCE = "lending.md 5, invariant 40"
