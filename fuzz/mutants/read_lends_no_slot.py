"""A read that fits behind the last slot works in bytes that are the cache's."""

MODULE = "strata.core.memory.read_plan"
FRAGMENT = "if num_lent else self.end_bytes"
REPLACEMENT = "if num_lent else self.slots[-1].extent.end_bytes"
SOURCE = "lending.md 5, invariant 1"
