"""A slot whose last entry is not read yet goes home."""

MODULE = "strata.core.serving.borrowing"
FRAGMENT = "- room.returned - in_flight"
REPLACEMENT = "- room.returned"
SOURCE = "lending.md 4.1, reclaim of a room slot"
