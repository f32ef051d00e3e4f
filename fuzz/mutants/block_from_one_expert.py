"""Every expert of the block comes from the first one."""

MODULE = "strata.core.serving.masters"
FRAGMENT = "Master(extent, home, blob_content(layer, expert)) for"
REPLACEMENT = "Master(extent, plan.pack.block[0], blob_content(layer, expert)) for"
SOURCE = "lending.md 5, invariant 21"
