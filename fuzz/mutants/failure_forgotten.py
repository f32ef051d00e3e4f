"""A failure is not remembered until everything is at rest."""

MODULE = "strata.core.serving.settling"
FRAGMENT = "session=NO_SESSION, is_broken=True, checks"
REPLACEMENT = "session=NO_SESSION, checks"
SOURCE = "lending.md 4, 8"
