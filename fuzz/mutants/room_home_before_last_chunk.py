"""Slots of the room go home in the first chunk."""

MODULE = "strata.core.serving.layers"
FRAGMENT = "num_read == len(state.request.prompt_ids) - 1:"
REPLACEMENT = "num_read > 0:"
SOURCE = "lending.md 4.1, reclaim of a room slot"
