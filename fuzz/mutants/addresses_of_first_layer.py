"""Slots of the address row are looked up for layer 0."""

MODULE = "strata.core.serving.chunk"
FRAGMENT = "slot = chunk.resident.get((layer, expert))"
REPLACEMENT = "slot = chunk.resident.get((0, expert))"
SOURCE = "lending.md 2, address table"
