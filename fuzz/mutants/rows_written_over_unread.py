"""A third pass begins while two are under way, in a buffer whose rows nobody has taken."""

MODULE = "strata.core.serving.pipeline"
FRAGMENT = "num_ahead = 0 if stage else MAX_PASSES"
REPLACEMENT = "num_ahead = 0 if stage else MAX_PASSES + 1"
SOURCE = "lending.md 5, hand-over buffers"
