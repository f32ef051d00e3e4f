"""A read from position 0 finds the state of the conversation before it."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "cleared = clear_state(self.plan, lane.stream) if start == 0 else ()"
REPLACEMENT = "cleared = ()"
SOURCE = "lending.md 5, invariant 40"
