"""Pieces of a part are looked for as if only that part had been parked."""

MODULE = "strata.core.serving.parking"
FRAGMENT = "base_bytes += piece.whole_bytes"
REPLACEMENT = "base_bytes += size_bytes"
SOURCE = "lending.md 2, checkpoint"
