"""Chunks leave no cells for the drafter."""

MODULE = "strata.core.serving.layers"
FRAGMENT = "if recipe.plan.draft is not None else ()"
REPLACEMENT = "if False else ()"
SOURCE = "docs/design.md, Drafts"
