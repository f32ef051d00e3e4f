"""Cells that are written over stay in the session."""

MODULE = "strata.core.serving.prefix"
FRAGMENT = "return Session(self.ids[:num_tokens])"
REPLACEMENT = "return Session(self.ids)"
SOURCE = "lending.md 5, invariant 40"
