"""Slots that were copied into and not read yet are not dirty."""

MODULE = "strata.core.serving.borrowing"
FRAGMENT = "num_entries=chunk.ring.num_issued)"
REPLACEMENT = "num_entries=chunk.ring.num_consumed)"
SOURCE = "lending.md 5, invariant 21"
