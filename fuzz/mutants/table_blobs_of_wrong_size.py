"""Entries end where the blobs of another layer would."""

MODULE = "strata.core.serving.table"
FRAGMENT = "_resident(slot, sizes[slot.layer], owner)"
REPLACEMENT = "_resident(slot, min(size for size in sizes if size), owner)"
SOURCE = "lending.md 2, stride"
