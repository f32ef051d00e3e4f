"""Slots of the cache are lent with what is in them."""

MODULE = "strata.core.lending.loan"
FRAGMENT = "return Transfer(self.extent, CACHE, PROMPT)"
REPLACEMENT = "return Transfer(self.extent, CACHE, PROMPT, in_place=True)"
SOURCE = "lending.md 5, invariant 5"
