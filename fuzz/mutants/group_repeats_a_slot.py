"""Two entries of a group share a slot."""

MODULE = "strata.core.memory.ring"
FRAGMENT = "slots = tuple((ring.num_issued + i) % ring.num_slots for"
REPLACEMENT = "slots = tuple((ring.num_issued + i // 2) % ring.num_slots for"
SOURCE = "lending.md 5, invariant 1"
