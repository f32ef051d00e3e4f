"""Windows name the table of start, whatever was published since."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "GraphLaunch(Stream.VERIFIER, WINDOW_GRAPH, state.at.table_version)"
REPLACEMENT = "GraphLaunch(Stream.VERIFIER, WINDOW_GRAPH, FIRST_TABLE_VERSION)"
SOURCE = "lending.md 5, invariant 12"
