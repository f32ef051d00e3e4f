"""The first slot of the lent bytes is not among the lent slots."""

MODULE = "strata.core.memory.read_plan"
FRAGMENT = "lendable.slots[len(lendable.slots) - num_lent :]"
REPLACEMENT = "lendable.slots[len(lendable.slots) - num_lent + 1 :]"
SOURCE = "lending.md 5, invariant 2"
