"""A later chunk takes the ring for empty of history."""

MODULE = "strata.core.serving.chunk"
FRAGMENT = "is_streaming, first_entry=ring.num_issued)"
REPLACEMENT = "is_streaming)"
SOURCE = "lending.md 5, invariant 14"
