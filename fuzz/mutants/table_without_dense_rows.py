"""Rows of dense layers are left out of the table."""

MODULE = "strata.core.serving.table"
FRAGMENT = "for layer in range(plan.inventory.num_layers)]"
REPLACEMENT = "for layer in range(plan.inventory.num_layers) if plan.pack.blobs[layer]]"
SOURCE = "lending.md 2, address table"
