"""A read takes lent slots for resident ones."""

MODULE = "strata.core.serving.borrowing"
FRAGMENT = "at.cache.slots[: len(at.cache.slots) - num_lent])"
REPLACEMENT = "at.cache.slots)"
SOURCE = "lending.md 5, invariant 4"
