"""The drafter's head is not copied home."""

MODULE = "strata.core.serving.borrowing"
FRAGMENT = """\
        if part.name != BLOCK:
"""
REPLACEMENT = """\
        if part.name not in (BLOCK, "draft head"):
"""
SOURCE = "lending.md 5, invariant 21"
