"""The address row gives ring slots as places of the pack."""

MODULE = "strata.core.serving.chunk"
FRAGMENT = "num_experts + expert] = places.arena + extent.offset_bytes"
REPLACEMENT = "num_experts + expert] = places.pack + extent.offset_bytes"
SOURCE = "lending.md 2, address table"
