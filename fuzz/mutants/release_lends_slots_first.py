"""The cache lends before verifier and drafter."""

MODULE = "strata.core.lending.segments"
FRAGMENT = """\
        *(Transfer(part.extent, part.name, NOBODY) for part in first),
        *lend,
"""
REPLACEMENT = """\
        *lend,
        *(Transfer(part.extent, part.name, NOBODY) for part in first),
"""
SOURCE = "lending.md 3.2, in this order"
