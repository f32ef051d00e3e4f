"""A version is published without its entries."""

MODULE = "strata.core.serving.table"
FRAGMENT = "entries = TableVersion(version, tuple(resident.values()))"
REPLACEMENT = "entries = TableVersion(version, ())"
SOURCE = "docs/design.md 3, table(version)"
