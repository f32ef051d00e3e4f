"""K/V of the last layer has no first content."""

MODULE = "strata.core.serving.startup"
FRAGMENT = "for layer in plan.kv:"
REPLACEMENT = "for layer in plan.kv[:-1]:"
SOURCE = "lending.md 5, invariant 5"
