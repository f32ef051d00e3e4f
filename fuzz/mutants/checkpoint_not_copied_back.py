"""A prompt goes on from a checkpoint whose state never came back."""

MODULE = "strata.core.serving.parking"
FRAGMENT = "        sides = _placed(_states(plan), checkpoint_place(plan, restored))"
REPLACEMENT = "        sides = iter(())"
SOURCE = "lending.md 2, checkpoint"
