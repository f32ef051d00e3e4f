"""The longest common prefix ends one id too late."""

MODULE = "strata.core.serving.prefix"
FRAGMENT = "next(compress(count(), map"
REPLACEMENT = "next(compress(count(1), map"
SOURCE = "lending.md 5, invariant 38"
