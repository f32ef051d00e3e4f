"""Experts of every layer are found through the row of layer 0."""

MODULE = "strata.core.serving.launches"
FRAGMENT = "row = address_row(recipe.plan.table, recipe.plan, layer=layer)"
REPLACEMENT = "row = address_row(recipe.plan.table, recipe.plan, layer=0)"
SOURCE = "lending.md 2, address table"
