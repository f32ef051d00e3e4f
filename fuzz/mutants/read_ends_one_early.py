"""The prompt path stops one token before the first window."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "if len(at.session.ids) == len(ids) - 1:"
REPLACEMENT = "if len(at.session.ids) >= len(ids) - 2:"
SOURCE = "lending.md 4, 6"
