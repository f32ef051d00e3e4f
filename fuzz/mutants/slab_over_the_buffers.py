"""Scratch lies over the buffers of the read that it is for."""

MODULE = "strata.core.memory.layout"
FRAGMENT = "(bump, SLAB_OWNER) if scratch is None"
REPLACEMENT = "(Bump(buffers.hidden.offset_bytes), SLAB_OWNER) if scratch is None"
SOURCE = "lending.md 5, invariant 35"
