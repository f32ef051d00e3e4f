"""The hidden row of the last token goes with no conversation and with no checkpoint."""

MODULE = "strata.core.serving.parking"
FRAGMENT = "for layer, whole in enumerate(plan.state):"
REPLACEMENT = "for layer, whole in enumerate(plan.state[: plan.inventory.num_layers]):"
SOURCE = "docs/design.md, decision 130"
