"""A read never stops at a turn that ended."""

MODULE = "strata.core.serving.cuts"
FRAGMENT = "if token_id in turn_ends or position"
REPLACEMENT = "if position"
SOURCE = "lending.md 2, cut"
