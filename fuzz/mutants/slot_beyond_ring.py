"""Entry k uses slot k mod (ring + 1)."""

MODULE = "strata.core.memory.ring"
FRAGMENT = "slots = tuple((ring.num_issued + i) % ring.num_slots for"
REPLACEMENT = "slots = tuple((ring.num_issued + i) % (ring.num_slots + 1) for"
SOURCE = "lending.md 5, invariant 14"
