"""The address row gives ring slots as places of the pack."""

MODULE = "strata.core.serving.chunk"
FRAGMENT = "words[expert] = places.arena + extent.offset_bytes"
REPLACEMENT = "words[expert] = places.pack + extent.offset_bytes"
SOURCE = "lending.md 2, address table"
