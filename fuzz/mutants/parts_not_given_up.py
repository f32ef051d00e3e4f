"""Verifier and drafter keep addresses that nothing backs."""

MODULE = "strata.core.lending.segments"
FRAGMENT = """\
        *(Transfer(part.extent, part.name, NOBODY) for part in first),
"""
REPLACEMENT = ""
SOURCE = "lending.md 5, invariant 1"
