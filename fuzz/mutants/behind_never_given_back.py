"""The prompt path keeps the bytes behind the arena."""

MODULE = "strata.core.lending.segments"
FRAGMENT = "    if ledger.is_owner(PROMPT, zone.all_behind):"
REPLACEMENT = "    if False:"
SOURCE = "lending.md 5, invariant 1"
