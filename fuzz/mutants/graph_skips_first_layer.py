"""The captured window leaves out layer 0."""

MODULE = "strata.core.serving.launches"
FRAGMENT = "for layer in range(recipe.plan.inventory.num_layers):"
REPLACEMENT = "for layer in range(min(1, recipe.plan.inventory.num_layers - 1), recipe.plan.inventory.num_layers):"
SOURCE = "lending.md 5, invariant 12"
