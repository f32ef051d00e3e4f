"""Windows name the table of start, whatever was published since."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "at, launched, version = state.at, Orders(), state.at.table_version"
REPLACEMENT = "at, launched, version = state.at, Orders(), 1"
SOURCE = "lending.md 5, invariant 12"
