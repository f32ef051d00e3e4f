"""A window does not wait for its drafts."""

MODULE = "strata.core.serving.windows"
FRAGMENT = 'Record(Stream.DRAFTER, "draft_done"), end)'
REPLACEMENT = 'Record(Stream.DRAFTER, "draft_done"))'
SOURCE = "lending.md 4.1, row drafter"
