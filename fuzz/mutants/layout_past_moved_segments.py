"""A read is laid out on more bytes than were moved."""

MODULE = "strata.core.memory.read_plan"
FRAGMENT = "num_lent = _fewest_lent(lendable, needed_bytes - behind_bytes)"
REPLACEMENT = "num_lent = _fewest_lent(lendable, needed_bytes - 2 * behind_bytes)"
SOURCE = "lending.md 5, invariant 10"
