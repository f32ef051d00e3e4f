"""Every prompt is read from 0."""

MODULE = "strata.core.serving.prefix"
FRAGMENT = "if self.ids[i] != ids[i]), most)"
REPLACEMENT = "if self.ids[i] != ids[i]), 0)"
SOURCE = "cases B6"
