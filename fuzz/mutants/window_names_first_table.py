"""Windows name the table of start, whatever was published since."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "table_version=state.at.table_version)"
REPLACEMENT = "table_version=1)"
SOURCE = "lending.md 5, invariant 12"
