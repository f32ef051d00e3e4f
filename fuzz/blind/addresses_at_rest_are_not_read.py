"""Nobody looks where the table says that blobs are."""

MODULE = "sim.world.table_checks"
FRAGMENT = "        if not is_right:"
REPLACEMENT = "        if False:"
SOURCE = "lending.md 2, address table"
LETS_LIVE = ("table_ignores_residents",)
