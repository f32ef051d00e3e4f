"""The table gives every layer the slots of layer 0."""

MODULE = "strata.core.serving.table"
FRAGMENT = "slot = resident.get((layer, expert))"
REPLACEMENT = "slot = resident.get((0, expert))"
SOURCE = "lending.md 2, address table"
