"""The first read keeps the geometry of the start unasked."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "keeps_startup = at.segments is not None and policy.retains_startup"
REPLACEMENT = "keeps_startup = at.segments is not None"
SOURCE = "lending.md 3.2, else it is planned again"
