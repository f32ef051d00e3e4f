"""A restore that is repeated unmaps segments that are home."""

MODULE = "strata.core.lending.segments"
FRAGMENT = "        if backing.places[i] == zone.behind(i):"
REPLACEMENT = "        if backing.places[i] is not None:"
SOURCE = "lending.md 3.2, a failure at any step ends with everything resident"
