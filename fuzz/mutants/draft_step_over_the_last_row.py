"""A step writes the cell of the row before it, which was true."""

MODULE = "strata.core.serving.drafting"
FRAGMENT = "step_rows, behind = (rows, rows) if step == 0 else (1, 1 - step)"
REPLACEMENT = "step_rows, behind = (rows, rows) if step == 0 else (1, 2 - step)"
SOURCE = "docs/design.md, Drafts"
