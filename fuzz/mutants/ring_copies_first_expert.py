"""Every ring copy takes the blob of expert 0."""

MODULE = "strata.core.serving.chunk"
FRAGMENT = "CopyPair(plan.pack.blobs[layer][expert], _ring_access"
REPLACEMENT = "CopyPair(plan.pack.blobs[layer][0], _ring_access"
SOURCE = "lending.md 5, invariant 13"
