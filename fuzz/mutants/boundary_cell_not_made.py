"""The cell behind what was taken over stays as it is: the row that is kept is made no pair of."""

MODULE = "strata.core.serving.drafting"
FRAGMENT = "return _fill(recipe, lane, token, *kept, rows=1, behind=1) if start and kept else ()"
REPLACEMENT = "return ()"
SOURCE = "docs/design.md, decision 130"
