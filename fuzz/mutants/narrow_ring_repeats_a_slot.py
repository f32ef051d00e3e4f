"""The first two entries behind the narrowing share a slot."""

MODULE = "strata.core.memory.ring"
FRAGMENT = "beyond = entry - self.narrows_at"
REPLACEMENT = "beyond = entry - self.narrows_at - 1"
SOURCE = "lending.md 5, invariant 14"
