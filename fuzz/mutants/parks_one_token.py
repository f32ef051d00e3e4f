"""A single token beyond the shared prefix is worth a copy."""

MODULE = "strata.core.serving.conversations"
FRAGMENT = "MIN_PARKED_TOKENS = 64"
REPLACEMENT = "MIN_PARKED_TOKENS = 1"
SOURCE = "lending.md 4, 2"
