"""The host takes expert e for expert e + 1."""

MODULE = "strata.engine.runner"
FRAGMENT = "tuple(expert for expert, rows in enumerate(counts) if rows)"
REPLACEMENT = "tuple(expert for expert, rows in enumerate(counts[1:], 1) if rows)"
SOURCE = "lending.md 2, ring"
