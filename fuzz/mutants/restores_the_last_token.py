"""A parked conversation that has the whole prompt leaves nothing for the window."""

MODULE = "strata.core.serving.conversations"
FRAGMENT = "restore, read_from = best, best.session.read_from(prompt_ids, kinds)"
REPLACEMENT = "restore, read_from = best, best.session.usable(prompt_ids, kinds)"
SOURCE = "lending.md 5, invariant 39"
