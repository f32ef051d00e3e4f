"""Entries end where the blobs of another layer would."""

MODULE = "strata.core.serving.table"
FRAGMENT = "size_bytes=plan.inventory.blob_bytes[slot.layer])"
REPLACEMENT = "size_bytes=min(size for size in plan.inventory.blob_bytes if size))"
SOURCE = "lending.md 2, stride"
