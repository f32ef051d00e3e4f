"""The part that the last segment cuts is given up as a whole."""

MODULE = "strata.core.memory.zone"
FRAGMENT = "parts = [_cut(region, end_bytes) for region"
REPLACEMENT = "parts = [region for region"
SOURCE = "lending.md 5, invariant 1"
