"""The address row names the slot beside the one that is filled."""

MODULE = "strata.core.serving.chunk"
FRAGMENT = "slot_of.update({pair: (first + i) % chunk.ring.num_slots"
REPLACEMENT = "slot_of.update({pair: (first + i + 1) % chunk.ring.num_slots"
SOURCE = "lending.md 5, invariant 14"
