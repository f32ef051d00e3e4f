"""The last lent slot is not refilled."""

MODULE = "strata.core.serving.borrowing"
FRAGMENT = "first += blobs_home(plan, loan.slots)"
REPLACEMENT = "first += blobs_home(plan, loan.slots[:-1])"
SOURCE = "lending.md 5, invariant 3"
