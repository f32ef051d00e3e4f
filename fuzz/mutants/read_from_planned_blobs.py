"""A read takes the blobs of the plan for those in the cache."""

MODULE = "strata.core.serving.borrowing"
FRAGMENT = "at.cache.slots[: len(at.cache.slots) - num_lent])"
REPLACEMENT = "plan.slots[: len(at.cache.slots) - num_lent])"
SOURCE = "lending.md 2, address table"
