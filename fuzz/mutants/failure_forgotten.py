"""A failure is not remembered until everything is at rest."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "session=NO_SESSION, is_broken=True)"
REPLACEMENT = "session=NO_SESSION)"
SOURCE = "lending.md 4, 8"
