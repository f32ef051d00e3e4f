"""The prompt path writes bytes that nobody gave it."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "return after, replace(orders, acts=acts)"
REPLACEMENT = "return after, orders"
SOURCE = "lending.md 5, invariant 1"
