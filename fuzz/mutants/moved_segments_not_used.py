"""A read leaves the moved segments alone."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "plan.read(planned_tokens, has_segments=has_segments, "
REPLACEMENT = "plan.read(planned_tokens, has_segments=False, "
SOURCE = "lending.md 6, elastic bytes do count"
