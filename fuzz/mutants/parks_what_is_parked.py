"""A session that is parked whole is copied again."""

MODULE = "strata.core.serving.conversations"
FRAGMENT = "return not any(parked.session.holds(session.ids, kinds) for parked in listed)"
REPLACEMENT = "return True"
SOURCE = "lending.md 4, 2"
