"""Chunks leave no cells for the drafter."""

MODULE = "strata.core.serving.layers"
FRAGMENT = "if chunk.layer == recipe.plan.inventory.num_layers and recipe.plan.draft is not None:"
REPLACEMENT = "if False:"
SOURCE = "docs/design.md, Drafts"
