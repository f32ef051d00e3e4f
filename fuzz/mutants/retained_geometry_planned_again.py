"""A first read is planned anew although the geometry of the start is retained."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "keeps_startup = at.segments is not None and policy.retains_startup"
REPLACEMENT = "keeps_startup = False"
SOURCE = "lending.md 3.2, RETAIN"
