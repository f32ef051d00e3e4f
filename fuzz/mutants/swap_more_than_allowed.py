"""More blobs are exchanged at once than may be."""

MODULE = "strata.core.serving.swapping"
FRAGMENT = "most=plan.options.num_swaps)"
REPLACEMENT = "most=plan.options.num_swaps + 1)"
SOURCE = "docs/design.md 4, swaps"
