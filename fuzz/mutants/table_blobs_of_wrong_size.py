"""Entries end where the blobs of another layer would."""

MODULE = "strata.core.serving.table"
FRAGMENT = "slot.extent.offset_bytes, sizes[slot.layer], owner)"
REPLACEMENT = "slot.extent.offset_bytes, min(size for size in sizes if size), owner)"
SOURCE = "lending.md 2, stride"
