"""Every prompt is read from 0."""

MODULE = "strata.core.serving.prefix"
FRAGMENT = "map(ne, self.ids, ids)), most)"
REPLACEMENT = "map(ne, self.ids, ids)), 0)"
SOURCE = "cases B6"
