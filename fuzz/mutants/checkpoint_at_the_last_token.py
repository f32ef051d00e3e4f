"""A prompt goes on from behind its last token, which leaves nothing for the window."""

MODULE = "strata.core.serving.checkpoints"
FRAGMENT = "shared = session.usable(prompt_ids[:-1])"
REPLACEMENT = "shared = session.usable(prompt_ids)"
SOURCE = "lending.md 5, invariant 39"
