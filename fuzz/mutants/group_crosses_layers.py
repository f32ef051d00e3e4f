"""A copy group takes blobs of the next layer along."""

MODULE = "strata.core.serving.chunk"
FRAGMENT = "lambda pair: pair[0] == layer, chunk.pending)"
REPLACEMENT = "lambda pair: pair[0] >= layer, chunk.pending)"
SOURCE = "lending.md 5, invariant 15"
