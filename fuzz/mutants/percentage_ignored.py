"""Every slot above the floor may be lent."""

MODULE = "strata.core.memory.policy"
FRAGMENT = "LENDABLE_PERCENT = 90"
REPLACEMENT = "LENDABLE_PERCENT = 100"
SOURCE = "lending.md 5, invariant 6"
