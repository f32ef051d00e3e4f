"""The table of a read has one row less than there are layers."""

MODULE = "strata.core.memory.layout"
FRAGMENT = "return inventory.num_layers * inventory.num_experts * INT64_BYTES"
REPLACEMENT = "return max(1, inventory.num_layers - 1) * inventory.num_experts * INT64_BYTES"
SOURCE = "lending.md 5, invariant 10"
