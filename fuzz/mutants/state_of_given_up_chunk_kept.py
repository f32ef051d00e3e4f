"""A read that was given up leaves a session, though some layers have moved on."""

MODULE = "strata.core.serving.prefix"
FRAGMENT = "return Session(self.ids, is_torn=not can_rewind(kinds))"
REPLACEMENT = "return self"
SOURCE = "lending.md 5, invariant 40"
