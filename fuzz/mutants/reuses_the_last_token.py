"""A prompt that the session holds whole leaves nothing for the window."""

MODULE = "strata.core.serving.prefix"
FRAGMENT = "min(len(self.ids), len(prompt_ids) - 1)"
REPLACEMENT = "min(len(self.ids), len(prompt_ids))"
SOURCE = "lending.md 5, invariant 39"
