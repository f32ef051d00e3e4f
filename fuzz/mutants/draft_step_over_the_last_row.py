"""A step writes the cell of the row before it, which was true."""

MODULE = "strata.core.serving.drafting"
FRAGMENT = "behind = rows if step == 0 else 1 - step"
REPLACEMENT = "behind = rows if step == 0 else 2 - step"
SOURCE = "docs/design.md, Drafts"
