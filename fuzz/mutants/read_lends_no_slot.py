"""A read that fits behind the last slot works in bytes that are the cache's."""

MODULE = "strata.core.memory.read_plan"
FRAGMENT = "low, high = 1, lendable.max_lent"
REPLACEMENT = "low, high = 0, lendable.max_lent"
SOURCE = "lending.md 5, invariant 1"
