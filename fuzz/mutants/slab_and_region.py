"""The region for scratch is planned with the slab, too."""

MODULE = "strata.core.memory.planner"
FRAGMENT = """\
    if options.has_slab:
        return [0]
"""
REPLACEMENT = ""
SOURCE = "lending.md 3.3, those bytes become cache slots"
