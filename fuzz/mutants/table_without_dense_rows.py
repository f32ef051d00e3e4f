"""Rows of dense layers are left out of the table."""

MODULE = "strata.core.serving.table"
FRAGMENT = "words += [0] * plan.inventory.num_experts"
REPLACEMENT = "words += []"
SOURCE = "lending.md 2, address table"
