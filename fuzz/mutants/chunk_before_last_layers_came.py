"""The next chunk begins when all layers of the one before are ordered, and not when they are known to be read."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "if told or chunk.layer <"
REPLACEMENT = "if chunk.layer <"
SOURCE = "lending.md 5, invariant 16"
