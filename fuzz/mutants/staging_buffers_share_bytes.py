"""Pinned buffers overlap by half."""

MODULE = "strata.core.memory.staging"
FRAGMENT = "offset_bytes = align_up(offset_bytes + size_bytes, SLOT_ALIGNMENT_BYTES)"
REPLACEMENT = "offset_bytes = align_up(offset_bytes + size_bytes // 2, SLOT_ALIGNMENT_BYTES)"
SOURCE = "lending.md 5, invariant 16"
