"""A blob may go into a slot that is smaller than it."""

MODULE = "strata.core.memory.residency"
FRAGMENT = "if slots[i].extent.size_bytes >= size_bytes)"
REPLACEMENT = "if slots[i].extent.size_bytes > 0)"
SOURCE = "lending.md 2, sized slots"
