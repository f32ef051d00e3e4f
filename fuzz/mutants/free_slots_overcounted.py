"""One entry more than the ring has slots is in flight."""

MODULE = "strata.core.memory.ring"
FRAGMENT = "return min(self.num_slots - (self.num_issued - self.num_consumed), self"
REPLACEMENT = "return min(self.num_slots - (self.num_issued - self.num_consumed) + 1, self"
SOURCE = "lending.md 5, invariant 14"
