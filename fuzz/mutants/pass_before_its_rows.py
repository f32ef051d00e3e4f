"""A stage begins a pass one ahead of the rows that it takes in."""

MODULE = "strata.core.serving.pipeline"
FRAGMENT = "num_ahead = 0 if stage else MAX_PASSES"
REPLACEMENT = "num_ahead = 1 if stage else MAX_PASSES"
SOURCE = "lending.md 4.1"
