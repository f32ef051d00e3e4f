"""A slot is refilled with the blob of the expert before."""

MODULE = "strata.core.serving.borrowing"
FRAGMENT = "CopyPair(plan.pack.blobs[slot.layer][slot.expert], blobs"
REPLACEMENT = "CopyPair(plan.pack.blobs[slot.layer][slot.expert - 1], blobs"
SOURCE = "lending.md 5, invariant 3"
