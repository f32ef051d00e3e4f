"""A prompt that the session holds whole leaves nothing for the window."""

MODULE = "strata.core.serving.prefix"
FRAGMENT = "num_usable = self.usable(prompt_ids[:-1], kinds)"
REPLACEMENT = "num_usable = self.usable(prompt_ids, kinds)"
SOURCE = "lending.md 5, invariant 39"
