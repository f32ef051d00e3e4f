"""Experts are read through the address rows of the chunk before."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "if chunk.is_streaming and self.plan.inventory.num_moe_layers:"
REPLACEMENT = "if chunk.is_streaming and self.plan.inventory.num_moe_layers and start == 0:"
SOURCE = "lending.md 5, invariant 5"
