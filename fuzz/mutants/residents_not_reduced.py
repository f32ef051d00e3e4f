"""A read takes lent slots for resident ones."""

MODULE = "strata.core.serving.borrowing"
FRAGMENT = "if pair not in lent}"
REPLACEMENT = "if pair}"
SOURCE = "lending.md 5, invariant 4"
