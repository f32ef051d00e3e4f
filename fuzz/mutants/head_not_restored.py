"""The output head is not copied home."""

MODULE = "strata.core.serving.borrowing"
FRAGMENT = """\
        if part.name != BLOCK:
"""
REPLACEMENT = """\
        if part.name not in (BLOCK, "head"):
"""
SOURCE = "lending.md 5, invariant 7"
