"""The slot of the last entry is not dirty."""

MODULE = "strata.core.lending.room"
FRAGMENT = "min(end, num_entries)"
REPLACEMENT = "min(end, num_entries - 1)"
SOURCE = "lending.md 3.1, dirty slots"
