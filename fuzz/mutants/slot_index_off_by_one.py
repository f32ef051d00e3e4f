"""The address row names the slot beside the one that is filled."""

MODULE = "strata.core.serving.chunk"
FRAGMENT = "slot_of = {pair: chunk.ring.slot(entry) for"
REPLACEMENT = "slot_of = {pair: chunk.ring.slot(entry + 1) for"
SOURCE = "lending.md 5, invariant 14"
