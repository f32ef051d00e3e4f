"""A blob counts as pinned that only begins in pinned memory."""

MODULE = "strata.core.memory.pack"
FRAGMENT = "return home.end_bytes <= self.pinned_bytes"
REPLACEMENT = "return home.offset_bytes < self.pinned_bytes"
SOURCE = "lending.md 3.5, --resident-budget-gib: a pageable blob is staged before the window that needs it"
