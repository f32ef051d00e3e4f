"""Parts come home in the order in which they went."""

MODULE = "strata.core.lending.segments"
FRAGMENT = "away = [part for part in reversed(zone.parts) if"
REPLACEMENT = "away = [part for part in zone.parts if"
SOURCE = "lending.md 3.2, restore in reverse"
