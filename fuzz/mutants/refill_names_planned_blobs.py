"""Behind a loan the table names the blobs of the plan."""

MODULE = "strata.core.serving.borrowing"
FRAGMENT = "resident_blobs(plan, at.cache.slots)"
REPLACEMENT = "resident_blobs(plan, plan.slots)"
SOURCE = "lending.md 5, invariant 3"
