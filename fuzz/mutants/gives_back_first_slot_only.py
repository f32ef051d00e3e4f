"""Only the first lent slot changes hands on the way back."""

MODULE = "strata.core.lending.loan"
FRAGMENT = "return Transfer(self.extent, PROMPT, CACHE)"
REPLACEMENT = "return Transfer(self.slots[0].extent, PROMPT, CACHE)"
SOURCE = "lending.md 5, invariant 1"
