"""Lent pairs stay in the table."""

MODULE = "strata.core.serving.borrowing"
FRAGMENT = "publish_table(plan, places, kept_blobs(plan, loan), version=version)"
REPLACEMENT = "publish_table(plan, places, resident_blobs(plan), version=version)"
SOURCE = "lending.md 5, invariant 2"
