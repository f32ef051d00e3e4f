"""A dense tensor is loaded from the start of the pack."""

MODULE = "strata.core.serving.startup"
FRAGMENT = "CopyPair(plan.pack.weights[name], Access"
REPLACEMENT = "CopyPair(type(plan.pack.weights[name])(plan.pack.weights[name].space, 0, extent.size_bytes), Access"
SOURCE = "lending.md 5, invariant 3"
