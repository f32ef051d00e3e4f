"""A session that goes on in another way keeps the last cell of its drafter, made with the token that followed then."""

MODULE = "strata.core.serving.prefix"
FRAGMENT = "(StateKind.PAIRS in kinds and can_rewind(kinds))"
REPLACEMENT = "0"
SOURCE = "docs/design.md, decision 130"
