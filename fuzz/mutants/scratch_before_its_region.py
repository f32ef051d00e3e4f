"""Scratch begins before the region for it."""

MODULE = "strata.core.memory.layout"
FRAGMENT = "Bump(scratch.offset_bytes), SCRATCH)"
REPLACEMENT = "Bump(max(0, scratch.offset_bytes - 256)), SCRATCH)"
SOURCE = "lending.md 5, invariant 1"
