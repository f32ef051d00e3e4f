"""The twin lets a table version be published twice."""

MODULE = "sim.tables"
FRAGMENT = "if published.version <= self._newest:"
REPLACEMENT = "if published.version < self._newest:"
SOURCE = "docs/design.md 3, table(version)"
LETS_LIVE = ("lend_reuses_table_version",)
