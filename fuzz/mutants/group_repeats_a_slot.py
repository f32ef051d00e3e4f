"""Two entries of a copy group share a slot."""

MODULE = "strata.core.memory.ring"
FRAGMENT = "slots = tuple(ring.slot(ring.num_issued + i) for"
REPLACEMENT = "slots = tuple(ring.slot(ring.num_issued + i // 2) for"
SOURCE = "lending.md 5, invariant 1"
