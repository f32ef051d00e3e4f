"""Recurrent state is left on the card."""

MODULE = "strata.core.serving.parking"
FRAGMENT = "for layer, whole in enumerate(plan.state):"
REPLACEMENT = "for layer, whole in enumerate(plan.state[:0]):"
SOURCE = "cases B2"
