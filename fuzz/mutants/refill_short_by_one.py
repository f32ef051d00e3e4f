"""The last lent slot is not refilled."""

MODULE = "strata.core.serving.borrowing"
FRAGMENT = "    for slot in loan.slots:\n        yield CopyPair"
REPLACEMENT = "    for slot in loan.slots[:-1]:\n        yield CopyPair"
SOURCE = "lending.md 5, invariant 3"
