"""Rows of a chunk are taken in while the stage before is still in its layers."""

MODULE = "strata.core.serving.pipeline"
FRAGMENT = "is_open = is_open or len(at.told) > 1 or at.chunk.layer < self.machines[stage].plan.inventory.num_layers"
REPLACEMENT = "is_open = False"
SOURCE = "lending.md 4.1"
