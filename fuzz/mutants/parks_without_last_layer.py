"""The last layer is no state."""

MODULE = "strata.core.serving.parking"
FRAGMENT = "for layer, whole in enumerate(plan.kv):"
REPLACEMENT = "for layer, whole in enumerate(plan.kv[:-1] or plan.kv):"
SOURCE = "cases B2"
