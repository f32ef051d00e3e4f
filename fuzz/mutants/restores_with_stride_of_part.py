"""Pieces of a part are looked for as if only that part had been parked."""

MODULE = "strata.core.serving.parking"
FRAGMENT = "offset_bytes += num_tokens * cell_bytes"
REPLACEMENT = "offset_bytes += (end - start) * cell_bytes"
SOURCE = "lending.md 2, checkpoint"
