"""Slots of the room go home on the stream of the windows."""

MODULE = "strata.core.serving.borrowing"
FRAGMENT = "(*waits, *copy_groups(Stream.COPY, _slots"
REPLACEMENT = "(*waits, *copy_groups(Stream.VERIFIER, _slots"
SOURCE = "lending.md 4.1, reclaim of a room slot"
