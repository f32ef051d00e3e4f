"""The room's last slot is never dirty."""

MODULE = "strata.core.lending.room"
FRAGMENT = "end = self.first_slot + len(self.slots)"
REPLACEMENT = "end = self.first_slot + len(self.slots) - 1"
SOURCE = "lending.md 3.1, dirty slots"
