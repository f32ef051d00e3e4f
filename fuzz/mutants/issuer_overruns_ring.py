"""A group is issued although the ring lacks one slot for it."""

MODULE = "strata.core.serving.chunk"
FRAGMENT = "if len(experts) > ring.num_free:"
REPLACEMENT = "if len(experts) > ring.num_free + 1:"
SOURCE = "lending.md 5, invariant 14"
