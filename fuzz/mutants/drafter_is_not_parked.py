"""A conversation leaves without the cells of its drafter."""

MODULE = "strata.core.serving.parking"
FRAGMENT = "for layer, whole in enumerate(plan.kv):"
REPLACEMENT = "for layer, whole in enumerate(plan.kv[: plan.inventory.num_layers]):"
SOURCE = "lending.md 4.1, park"
