"""Every read borrows all that may be lent."""

MODULE = "strata.core.memory.read_plan"
FRAGMENT = """\
    while low < high:
"""
REPLACEMENT = """\
    low = high
    while low < high:
"""
SOURCE = "lending.md 6"
