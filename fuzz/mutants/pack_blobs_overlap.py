"""Blobs of the host master overlap by one grid step."""

MODULE = "strata.core.memory.pack"
FRAGMENT = "offset_bytes = align_up(extent.end_bytes, SLOT_ALIGNMENT_BYTES)"
REPLACEMENT = "offset_bytes = max(offset_bytes + 256, align_up(extent.end_bytes, SLOT_ALIGNMENT_BYTES) - 512)"
SOURCE = "lending.md 2, pack"
