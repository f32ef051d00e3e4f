"""Every address row of a chunk gives the slots of its first layer."""

MODULE = "strata.core.serving.chunk"
FRAGMENT = "blob = chunk.resident.get((layer, expert))"
REPLACEMENT = "blob = chunk.resident.get((first, expert))"
SOURCE = "lending.md 2, address table"
