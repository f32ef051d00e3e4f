"""A segment that no place has is not mapped home."""

MODULE = "strata.core.lending.segments"
FRAGMENT = "        if backing.places[i] != zone.home(i):"
REPLACEMENT = "        if backing.places[i] == zone.behind(i):"
SOURCE = "lending.md 3.2, a failure at any step ends with everything resident"
