"""One token is taken for none, and goes through no chunk."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "if path_tokens == 0:"
REPLACEMENT = "if path_tokens <= 1:"
SOURCE = "lending.md 5, invariant 39"
