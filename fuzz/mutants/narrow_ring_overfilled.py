"""Behind its narrowing the ring takes as many entries as before."""

MODULE = "strata.core.memory.ring"
FRAGMENT = "self.num_kept - num_narrow)"
REPLACEMENT = "self.num_slots - num_narrow)"
SOURCE = "lending.md 5, invariant 14"
