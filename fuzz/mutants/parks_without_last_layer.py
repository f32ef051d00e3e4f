"""The last layer is no state."""

MODULE = "strata.core.serving.parking"
FRAGMENT = "for layer in range(inventory.num_layers):"
REPLACEMENT = "for layer in range(max(1, inventory.num_layers - 1)):"
SOURCE = "cases B2"
