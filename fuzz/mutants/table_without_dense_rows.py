"""Rows of dense layers are left out of the table."""

MODULE = "strata.core.serving.table"
FRAGMENT = "or [0] * num_experts"
REPLACEMENT = "or []"
SOURCE = "lending.md 2, address table"
