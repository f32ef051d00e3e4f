"""The first slot that a read wrote is not dirty."""

MODULE = "strata.core.lending.room"
FRAGMENT = "frozenset(range(self.first_slot, min"
REPLACEMENT = "frozenset(range(self.first_slot + 1, min"
SOURCE = "lending.md 3.1, dirty slots"
