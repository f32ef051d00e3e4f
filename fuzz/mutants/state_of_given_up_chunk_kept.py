"""A read that was given up leaves a session, though some layers have moved on."""

MODULE = "strata.core.serving.prefix"
FRAGMENT = "return self if can_rewind(kinds) else NO_SESSION"
REPLACEMENT = "return self"
SOURCE = "lending.md 5, invariant 40"
