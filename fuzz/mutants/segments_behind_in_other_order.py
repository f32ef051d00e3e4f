"""Segments go behind the arena in other places than the books have."""

MODULE = "strata.core.lending.segments"
FRAGMENT = "        *(Map(i, zone.behind(i)) for i in segments),"
REPLACEMENT = "        *(Map(i, zone.behind(zone.num_segments - 1 - i)) for i in segments),"
SOURCE = "lending.md 3.2, restore in reverse"
