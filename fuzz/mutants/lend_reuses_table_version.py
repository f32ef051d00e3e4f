"""The table without the lent pairs has the number of the one before."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "at = replace(at, loan=loan, table_version=at.table_version + 1)"
REPLACEMENT = "at = replace(at, loan=loan)"
SOURCE = "docs/design.md 3, table(version)"
