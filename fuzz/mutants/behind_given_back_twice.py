"""The bytes behind the arena are given back once more."""

MODULE = "strata.core.lending.segments"
FRAGMENT = """\
        yield Transfer(zone.all_behind, PROMPT, NOBODY)
"""
REPLACEMENT = """\
        yield Transfer(zone.all_behind, PROMPT, NOBODY)
        yield Transfer(zone.all_behind, PROMPT, NOBODY)
"""
SOURCE = "lending.md 5, invariant 1"
