"""The last lent slot is not refilled."""

MODULE = "strata.core.serving.borrowing"
FRAGMENT = """\
for slot in loan.slots]
    for first"""
REPLACEMENT = """\
for slot in loan.slots[:-1]]
    for first"""
SOURCE = "lending.md 5, invariant 3"
