"""A transfer leaves the bytes with who gave them."""

MODULE = "strata.core.lending.ledger"
FRAGMENT = "pieces.append(Holding(transfer.extent, transfer.taker))"
REPLACEMENT = "pieces.append(Holding(transfer.extent, transfer.giver))"
SOURCE = "lending.md 5, invariant 1"
