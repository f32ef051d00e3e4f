"""Slots of the room go home while later entries may use them."""

MODULE = "strata.core.serving.borrowing"
FRAGMENT = "    if room is None or chunk.pending or not chunk.ring.is_narrow:"
REPLACEMENT = "    if room is None or chunk.pending:"
SOURCE = "lending.md 4.1, reclaim of a room slot waits for used after its last entry"
