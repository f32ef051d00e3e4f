"""After a failure the table names the blobs of the plan."""

MODULE = "strata.core.serving.startup"
FRAGMENT = "resident_blobs(plan, cache.slots)"
REPLACEMENT = "resident_blobs(plan, plan.slots)"
SOURCE = "lending.md 4, 8"
