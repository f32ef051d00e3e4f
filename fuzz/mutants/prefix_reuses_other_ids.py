"""The longest common prefix ends one id too late."""

MODULE = "strata.core.serving.prefix"
FRAGMENT = "next((i for i in range(most) if"
REPLACEMENT = "next((i + 1 for i in range(most) if"
SOURCE = "lending.md 5, invariant 38"
