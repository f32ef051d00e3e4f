"""A copy group takes blobs of the next layer along."""

MODULE = "strata.core.serving.chunk"
FRAGMENT = "for of_layer, expert in head if of_layer == layer)"
REPLACEMENT = "for of_layer, expert in head if of_layer >= layer)"
SOURCE = "lending.md 5, invariant 15"
