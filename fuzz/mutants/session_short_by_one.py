"""The last token of each chunk is not counted as read."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "grown(*ids[chunk.start : chunk.start + chunk.rows])"
REPLACEMENT = "grown(*ids[chunk.start : chunk.start + chunk.rows - 1])"
SOURCE = "lending.md 5, invariant 40"
