"""Drafts go up one row too early, over the token sampled last."""

MODULE = "strata.core.serving.windows"
FRAGMENT = "given, first_row=1)"
REPLACEMENT = "given, first_row=0)"
SOURCE = "lending.md 2: a window has the last token, then the drafts"
