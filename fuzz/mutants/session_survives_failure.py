"""K/V is reused although a failed command may have written it."""

MODULE = "strata.core.serving.settling"
FRAGMENT = "session=NO_SESSION, is_broken=True, checks"
REPLACEMENT = "is_broken=True, checks"
SOURCE = "lending.md 5, invariant 38"
