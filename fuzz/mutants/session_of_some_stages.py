"""A session given up half way is as long on each stage as that stage has read."""

MODULE = "strata.core.serving.pipeline"
FRAGMENT = "stages.append(Idle(replace(at, session=session, "
REPLACEMENT = "stages.append(Idle(replace(at, "
SOURCE = "lending.md 5, invariant 42"
