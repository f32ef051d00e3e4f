"""One slot that was not written goes home too."""

MODULE = "strata.core.lending.room"
FRAGMENT = "min(end, num_entries)"
REPLACEMENT = "min(end, num_entries + 1)"
SOURCE = "lending.md 3.1, of dirty slots only"
