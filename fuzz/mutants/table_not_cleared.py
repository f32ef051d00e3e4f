"""Lent pairs stay in the table."""

MODULE = "strata.core.serving.borrowing"
FRAGMENT = "publish_table(plan, places, kept_blobs(plan, at), version=at.table_version)"
REPLACEMENT = "publish_table(plan, places, resident_blobs(plan, at.cache.slots), version=at.table_version)"
SOURCE = "lending.md 5, invariant 2"
