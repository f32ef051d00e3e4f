"""The last segment stays at home."""

MODULE = "strata.core.lending.segments"
FRAGMENT = """\
    segments = range(zone.num_segments)
"""
REPLACEMENT = """\
    segments = range(zone.num_segments - 1)
"""
SOURCE = "lending.md 3.2"
