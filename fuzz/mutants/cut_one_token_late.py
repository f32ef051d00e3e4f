"""A turn is cut behind the first token of the next one."""

MODULE = "strata.core.serving.cuts"
FRAGMENT = "for position, token_id in enumerate(ids, 1):"
REPLACEMENT = "for position, token_id in enumerate(ids, 2):"
SOURCE = "lending.md 2, cut"
