"""Slots of the room go home while entries are still to be issued."""

MODULE = "strata.core.serving.borrowing"
FRAGMENT = "    if chunk.pending or not ("
REPLACEMENT = "    if not ("
SOURCE = "lending.md 4.1, reclaim of a room slot waits for used after its last entry"
