"""A read takes lent slots for resident ones."""

MODULE = "strata.core.serving.borrowing"
FRAGMENT = "for slot in at.cache.slots if slot not in lent)"
REPLACEMENT = "for slot in at.cache.slots)"
SOURCE = "lending.md 5, invariant 4"
