"""A prompt of one token is read upon the state of the conversation before it."""

MODULE = "strata.core.serving.windows"
FRAGMENT = "commands += clear_state(plan, Stream.VERIFIER) if position == 0 else ()"
REPLACEMENT = "commands += ()"
SOURCE = "lending.md 5, invariant 40"
