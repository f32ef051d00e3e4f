"""A slot is refilled with the blob of the expert before."""

MODULE = "strata.core.serving.borrowing"
FRAGMENT = "first += blobs_home(plan, loan.slots)"
REPLACEMENT = "first += blobs_home(plan, [replace(slot, expert=slot.expert - 1) for slot in loan.slots])"
SOURCE = "lending.md 5, invariant 3"
