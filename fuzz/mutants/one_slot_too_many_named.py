"""A slot before the lent bytes counts as lent."""

MODULE = "strata.core.memory.read_plan"
FRAGMENT = "lendable.slots[len(lendable.slots) - num_lent :]"
REPLACEMENT = "lendable.slots[len(lendable.slots) - num_lent - 1 :]"
SOURCE = "lending.md 5, invariant 4"
