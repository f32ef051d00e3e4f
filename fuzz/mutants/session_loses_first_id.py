"""A session grows by all but the first id."""

MODULE = "strata.core.serving.prefix"
FRAGMENT = "return Session(self.ids + ids)"
REPLACEMENT = "return Session(self.ids + ids[1:])"
SOURCE = "lending.md 5, invariant 40"
