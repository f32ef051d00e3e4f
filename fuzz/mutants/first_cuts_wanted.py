"""A read stops at its first cuts and not at its last."""

MODULE = "strata.core.serving.checkpoints"
FRAGMENT = "[-self.num_slots :] if"
REPLACEMENT = "[: self.num_slots] if"
SOURCE = "cases B7"
