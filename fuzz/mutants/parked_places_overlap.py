"""A conversation begins where the one before it does."""

MODULE = "strata.core.serving.conversations"
FRAGMENT = "start = place.end_bytes"
REPLACEMENT = "start = place.offset_bytes + 256"
SOURCE = "lending.md 5, invariant 1"
