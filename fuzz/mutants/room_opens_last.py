"""The room opens after the cache has lent."""

MODULE = "strata.core.serving.borrowing"
FRAGMENT = "acts if at.room is None else (at.room.open, *acts)"
REPLACEMENT = "acts if at.room is None else (*acts, at.room.open)"
SOURCE = "lending.md 5, invariant 18"
