"""Books drop what is left of a holding before a transfer."""

MODULE = "strata.core.lending.ledger"
FRAGMENT = "sides = ((start, min(end, gone.offset_bytes)), (max(start, gone.end_bytes), end))"
REPLACEMENT = "sides = ((max(start, gone.end_bytes), end),)"
SOURCE = "lending.md 5, invariant 1"
