"""A chunk is chosen that needs more scratch than the region has."""

MODULE = "strata.core.memory.read_plan"
FRAGMENT = "if scratch is not None and scratch.size_bytes < price"
REPLACEMENT = "if scratch is not None and 4 * scratch.size_bytes < price"
SOURCE = "lending.md 3.3, planned for the worst case"
