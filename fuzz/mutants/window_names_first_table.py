"""Windows name the table of start, whatever was published since."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "version, is_counted = state.at.table_version,"
REPLACEMENT = "version, is_counted = 1,"
SOURCE = "lending.md 5, invariant 12"
