"""Lent slots are refilled with the blobs of the plan."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "slots = at.cache.slots[len(at.cache.slots) - len(read.lent) :]"
REPLACEMENT = "slots = read.lent"
SOURCE = "lending.md 5, invariant 3"
