"""The last run of dirty slots does not go home."""

MODULE = "strata.core.serving.borrowing"
FRAGMENT = "for run in room.runs(slots))"
REPLACEMENT = "for run in room.runs(slots)[:-1])"
SOURCE = "lending.md 5, invariant 21"
