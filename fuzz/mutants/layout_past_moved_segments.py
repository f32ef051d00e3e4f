"""A read is laid out on more bytes than were moved."""

MODULE = "strata.core.memory.read_plan"
FRAGMENT = "inventory.stride_bytes - behind_bytes)"
REPLACEMENT = "inventory.stride_bytes - 2 * behind_bytes)"
SOURCE = "lending.md 5, invariant 10"
