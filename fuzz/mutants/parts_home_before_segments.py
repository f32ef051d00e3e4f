"""Segments are taken for home when the read ends."""

MODULE = "strata.core.serving.settling"
FRAGMENT = """\
    return replace(at, loan=None, room=None, segments=None) if at.is_lending else at, acts
"""
REPLACEMENT = """\
    return replace(at, loan=None, room=None) if at.is_lending else at, acts
"""
SOURCE = "lending.md 3.2, restore"
