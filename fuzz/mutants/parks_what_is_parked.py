"""A session that is parked whole is copied again."""

MODULE = "strata.core.serving.conversations"
FRAGMENT = "return all(session.shared(parked.session.ids) < num_tokens for parked in listed)"
REPLACEMENT = "return True"
SOURCE = "lending.md 4, 2"
