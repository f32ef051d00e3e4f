"""Every read borrows all that may be lent."""

MODULE = "strata.core.memory.read_plan"
FRAGMENT = "return bisect_left(range(lendable.max_lent), needed_bytes"
REPLACEMENT = "return lendable.max_lent or bisect_left(range(lendable.max_lent), needed_bytes"
SOURCE = "lending.md 6"
