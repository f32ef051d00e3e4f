"""A piece from the middle of a blob is copied from its start."""

MODULE = "strata.core.serving.masters"
FRAGMENT = "offset_bytes=skipped, size"
REPLACEMENT = "offset_bytes=0, size"
SOURCE = "lending.md 5, invariant 21"
