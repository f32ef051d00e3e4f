"""A prompt of one token is read upon the state of the conversation before it."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "commands += clear_state(self.plan, Stream.VERIFIER) if position == 0 else ()"
REPLACEMENT = "commands += ()"
SOURCE = "lending.md 5, invariant 40"
