"""A group that would fill the ring is never issued."""

MODULE = "strata.core.serving.chunk"
FRAGMENT = "if len(experts) > ring.num_free:"
REPLACEMENT = "if len(experts) >= ring.num_free:"
SOURCE = "lending.md 5, invariant 15"
