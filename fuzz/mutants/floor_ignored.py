"""Slots that must stay are lent."""

MODULE = "strata.core.memory.policy"
FRAGMENT = "min(num_slots - min_cache_slots, num_slots * percent // 100)"
REPLACEMENT = "num_slots * percent // 100"
SOURCE = "lending.md 5, invariant 6"
