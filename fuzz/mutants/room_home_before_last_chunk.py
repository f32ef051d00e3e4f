"""Slots of the room go home in the first chunk."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "room = at.room if end == len(ids) - 1 else None"
REPLACEMENT = "room = at.room"
SOURCE = "lending.md 4.1, reclaim of a room slot"
