"""Slots of the room lie one behind the other without the grid."""

MODULE = "strata.core.memory.planner"
FRAGMENT = "offset_bytes=i * stride_bytes, size"
REPLACEMENT = "offset_bytes=i * inventory.max_blob_bytes, size"
SOURCE = "lending.md 3.1, at stride"
