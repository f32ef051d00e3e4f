"""A session given up half way is as long on each stage as that stage has read."""

MODULE = "strata.core.serving.pipeline"
FRAGMENT = "Idle(replace(at, session=session, num_passes=0))"
REPLACEMENT = "Idle(replace(at, num_passes=0))"
SOURCE = "lending.md 5, invariant 42"
