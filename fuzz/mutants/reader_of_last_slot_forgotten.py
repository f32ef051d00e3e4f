"""The reader of a group is not noted at its last slot."""

MODULE = "strata.core.memory.ring"
FRAGMENT = "for slot in group.slots:"
REPLACEMENT = "for slot in group.slots[:-1]:"
SOURCE = "lending.md 5, invariant 13"
