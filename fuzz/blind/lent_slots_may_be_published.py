"""Bytes may be lent while a table names them."""

MODULE = "sim.world.table_checks"
FRAGMENT = "        if entry.extent.overlaps(transfer.extent):"
REPLACEMENT = "        if False:"
SOURCE = "lending.md 5, invariant 2"
LETS_LIVE = ("table_not_cleared",)
