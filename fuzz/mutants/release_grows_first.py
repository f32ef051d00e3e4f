"""The prompt path grows before anything is mapped."""

MODULE = "strata.core.lending.segments"
FRAGMENT = """\
        *(Map(i, zone.behind(i)) for i in segments),
        Transfer(zone.all_behind, NOBODY, PROMPT),
"""
REPLACEMENT = """\
        Transfer(zone.all_behind, NOBODY, PROMPT),
        *(Map(i, zone.behind(i)) for i in segments),
"""
SOURCE = "lending.md 3.2, then grow"
