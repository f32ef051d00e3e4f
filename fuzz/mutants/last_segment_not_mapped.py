"""The last segment of the arena is not mapped."""

MODULE = "strata.core.serving.startup"
FRAGMENT = "for index in range(plan.arena_bytes // segment_bytes):"
REPLACEMENT = "for index in range(plan.arena_bytes // segment_bytes - 1):"
SOURCE = "cases A1"
