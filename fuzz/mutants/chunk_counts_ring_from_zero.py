"""A later chunk takes the ring for empty of history."""

MODULE = "strata.core.serving.chunk"
FRAGMENT = "enumerate(pairs, chunk.ring.num_issued)}"
REPLACEMENT = "enumerate(pairs)}"
SOURCE = "lending.md 5, invariant 14"
