"""A checkpoint stays listed on the stages that came so far."""

MODULE = "strata.core.serving.pipeline"
FRAGMENT = ", checkpoints=replace(at.checkpoints, listed=kept))"
REPLACEMENT = ")"
SOURCE = "lending.md 5, invariant 42"
