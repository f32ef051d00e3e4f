"""Whoever is to be restored may have to go for the one that is parked."""

MODULE = "strata.core.serving.conversations"
FRAGMENT = "victims = [other for other in left if other is not needed]"
REPLACEMENT = "victims = list(left)"
SOURCE = "lending.md 5, invariant 41"
