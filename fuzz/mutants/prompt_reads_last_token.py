"""The prompt path reads the token of the first window too."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "self.turn_ends), len(request.prompt_ids) - 1)"
REPLACEMENT = "self.turn_ends), len(request.prompt_ids))"
SOURCE = "lending.md 5, invariant 39"
