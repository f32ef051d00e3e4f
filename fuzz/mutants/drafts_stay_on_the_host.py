"""Drafts are staged and not copied to the card."""

MODULE = "strata.core.serving.windows"
FRAGMENT = "return Orders((upload,), (copy_to_verifier(way),))"
REPLACEMENT = "return Orders((upload,), ())"
SOURCE = "lending.md 2: a window has the last token, then the drafts"
