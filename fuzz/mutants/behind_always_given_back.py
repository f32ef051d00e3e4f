"""The bytes behind the arena are given back whoever has them."""

MODULE = "strata.core.lending.segments"
FRAGMENT = "    if ledger.is_owner(PROMPT, zone.all_behind):"
REPLACEMENT = "    if True:"
SOURCE = "lending.md 3.2, a failure at any step ends with everything resident"
