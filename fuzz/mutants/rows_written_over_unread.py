"""A third pass begins while two are under way, in a buffer whose rows nobody has taken."""

MODULE = "strata.core.serving.pipeline"
FRAGMENT = "len(self.machines) - 1) + MAX_PASSES"
REPLACEMENT = "len(self.machines) - 1) + MAX_PASSES + 1"
SOURCE = "lending.md 5, hand-over buffers"
