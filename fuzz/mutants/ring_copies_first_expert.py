"""Every ring copy takes the blob of expert 0."""

MODULE = "strata.core.serving.chunk"
FRAGMENT = "(plan.pack.blobs[layer][expert] for"
REPLACEMENT = "(plan.pack.blobs[layer][0] for"
SOURCE = "lending.md 5, invariant 13"
