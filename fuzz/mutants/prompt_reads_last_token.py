"""The prompt path reads the token of the first window too."""

MODULE = "strata.core.serving.checkpoints"
FRAGMENT = "turn_ends), len(prompt_ids) - 1)"
REPLACEMENT = "turn_ends), len(prompt_ids))"
SOURCE = "lending.md 5, invariant 39"
