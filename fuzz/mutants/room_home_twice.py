"""Slots that are on their way home are copied again."""

MODULE = "strata.core.serving.borrowing"
FRAGMENT = "at.room.dirty(at.room.num_entries) - at.room.returned)"
REPLACEMENT = "at.room.dirty(at.room.num_entries))"
SOURCE = "lending.md 3.1, one host-to-device copy"
