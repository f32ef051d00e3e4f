"""Prompt buffers begin 256 bytes before the lent bytes."""

MODULE = "strata.core.memory.read_plan"
FRAGMENT = "bump = Bump(extent.offset_bytes)"
REPLACEMENT = "bump = Bump(extent.offset_bytes - 256)"
SOURCE = "lending.md 5, invariant 10"
