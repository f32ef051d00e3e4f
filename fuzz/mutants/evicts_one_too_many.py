"""One conversation goes before it is asked whether there is room."""

MODULE = "strata.core.serving.conversations"
FRAGMENT = """\
    while (offset_bytes := _first_gap(left, parked.size_bytes, size_bytes)) is None:
        if not victims:
"""
REPLACEMENT = """\
    while num_evicted == 0 or (offset_bytes := _first_gap(left, parked.size_bytes, size_bytes)) is None:
        if not victims:
"""
SOURCE = "lending.md 3.5, parked bytes"
