"""A streaming chunk lists every blob and reads all but one."""

MODULE = "strata.core.serving.layers"
FRAGMENT = "experts = tuple(range(recipe.plan.inventory.num_experts))"
REPLACEMENT = "experts = tuple(range(1, recipe.plan.inventory.num_experts))"
SOURCE = "lending.md 5, invariant 14"
