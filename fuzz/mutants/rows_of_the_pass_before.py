"""A stage takes in what the first buffer holds, whichever pass it is."""

MODULE = "strata.core.serving.border"
FRAGMENT = "_buffer(before, lane.stream, at.num_passes % MAX_PASSES"
REPLACEMENT = "_buffer(before, lane.stream, 0"
SOURCE = "lending.md 5, hand-over buffers"
