"""A restore that is repeated takes back what is home."""

MODULE = "strata.core.lending.segments"
FRAGMENT = "for part in reversed(zone.parts) if ledger.is_owner(NOBODY, part.extent)]"
REPLACEMENT = "for part in reversed(zone.parts)]"
SOURCE = "lending.md 3.2, a failure at any step ends with everything resident"
