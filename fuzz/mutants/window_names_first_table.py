"""Windows name the table of start, whatever was published since."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "at, version, is_counted = state.at, state.at.table_version,"
REPLACEMENT = "at, version, is_counted = state.at, 1,"
SOURCE = "lending.md 5, invariant 12"
