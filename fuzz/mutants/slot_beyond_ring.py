"""Entries use one slot more than the ring has."""

MODULE = "strata.core.memory.ring"
FRAGMENT = "return entry % self.num_slots if beyond"
REPLACEMENT = "return entry % (self.num_slots + 1) if beyond"
SOURCE = "lending.md 5, invariant 14"
