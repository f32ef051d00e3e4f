"""A read is laid out on segments that were not moved."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "plan.read(planned_tokens, has_segments=has_segments, "
REPLACEMENT = "plan.read(planned_tokens, has_segments=policy.is_elastic, "
SOURCE = "lending.md 5, invariant 1"
