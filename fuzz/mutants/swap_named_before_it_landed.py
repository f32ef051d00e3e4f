"""The table names a blob whose copy has not begun."""

MODULE = "strata.core.serving.swapping"
FRAGMENT = "for index, slot in enumerate(cache.slots) if index not in cache.moving)"
REPLACEMENT = "for index, slot in enumerate(cache.slots))"
SOURCE = "lending.md 4.1, adaptive swap"
