"""Segments are mapped behind before they are free."""

MODULE = "strata.core.lending.segments"
FRAGMENT = """\
        *(Unmap(zone.home(i)) for i in segments),
        *(Map(i, zone.behind(i)) for i in segments),
"""
REPLACEMENT = """\
        *(Map(i, zone.behind(i)) for i in segments),
        *(Unmap(zone.home(i)) for i in segments),
"""
SOURCE = "lending.md 3.2, unmap at home, map behind"
