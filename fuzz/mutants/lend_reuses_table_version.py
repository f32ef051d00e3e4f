"""The table without the lent pairs has the number of the one before."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "stamp=at.serial), table_version=at.table_version + 1)"
REPLACEMENT = "stamp=at.serial))"
SOURCE = "docs/design.md 3, table(version)"
