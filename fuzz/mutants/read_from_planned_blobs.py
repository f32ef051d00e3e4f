"""A read takes the blobs of the plan for those in the cache."""

MODULE = "strata.core.serving.borrowing"
FRAGMENT = "for slot in at.cache.slots if slot not in lent)"
REPLACEMENT = "for slot in plan.slots if slot not in lent)"
SOURCE = "lending.md 2, address table"
