"""Segments come home, each under another place than its own."""

MODULE = "strata.core.lending.segments"
FRAGMENT = """\
        if backing.places[i] == zone.behind(i):
            yield Unmap(zone.behind(i))
        if backing.places[i] != zone.home(i):
            yield Map(i, zone.home(i))
"""
REPLACEMENT = """\
        if backing.places[i] == zone.behind(i):
            yield Unmap(zone.behind(i))
    for i in range(zone.num_segments):
        if backing.places[i] != zone.home(i):
            yield Map((i + 1) % zone.num_segments, zone.home(i))
"""
SOURCE = "lending.md 5, invariant 12"
