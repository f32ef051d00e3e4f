"""The table without the old blobs has the number of the one before."""

MODULE = "strata.core.serving.swapping"
FRAGMENT = "at = replace(at, cache=cache, table_version=at.table_version + 1)"
REPLACEMENT = "at = replace(at, cache=cache)"
SOURCE = "docs/design.md 3, table(version)"
