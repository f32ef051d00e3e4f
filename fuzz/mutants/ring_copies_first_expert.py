"""Every ring copy takes the blob of expert 0."""

MODULE = "strata.core.serving.chunk"
FRAGMENT = "CopyPair(plan.pack.blobs[layer][expert], blob)"
REPLACEMENT = "CopyPair(plan.pack.blobs[layer][0], blob)"
SOURCE = "lending.md 5, invariant 13"
