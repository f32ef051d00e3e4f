"""A draft as likely as it must be is not taken."""

MODULE = "strata.engine.results"
FRAGMENT = "if not probability >= least"
REPLACEMENT = "if not probability > least"
SOURCE = "docs/design.md, Drafts"
