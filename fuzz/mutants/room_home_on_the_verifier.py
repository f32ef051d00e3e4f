"""Slots of the room go home on the stream of the windows."""

MODULE = "strata.core.serving.borrowing"
FRAGMENT = "home = copy_groups(Stream.COPY, _slots_home(plan, room, slots))"
REPLACEMENT = "home = copy_groups(Stream.VERIFIER, _slots_home(plan, room, slots))"
SOURCE = "lending.md 4.1, reclaim of a room slot"
