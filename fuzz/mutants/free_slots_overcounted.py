"""One slot more than there is counts as free."""

MODULE = "strata.core.memory.ring"
FRAGMENT = "return self.num_slots - (self.num_issued - self.num_consumed)"
REPLACEMENT = "return self.num_slots - (self.num_issued - self.num_consumed) + 1"
SOURCE = "lending.md 5, invariant 14"
