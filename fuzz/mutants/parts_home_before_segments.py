"""Segments are taken for home when the read ends."""

MODULE = "strata.core.serving.settling"
FRAGMENT = """\
    return replace(at, loan=None, room=None, segments=None), acts
"""
REPLACEMENT = """\
    return replace(at, loan=None, room=None), acts
"""
SOURCE = "lending.md 3.2, restore"
