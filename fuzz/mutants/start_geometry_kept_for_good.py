"""Every read has the geometry of the start."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "keeps_startup = at.segments is not None and policy.retains_startup"
REPLACEMENT = "keeps_startup = policy.retains_startup"
SOURCE = "lending.md 3.2, RETAIN for the first read only"
