"""A dense tensor is loaded from the start of the pack."""

MODULE = "strata.core.serving.masters"
FRAGMENT = "Master(plan.weights[name], plan.pack.weights[name], weight_content(name))"
REPLACEMENT = (
    "Master(plan.weights[name], type(plan.pack.weights[name])(plan.pack.weights[name].space, 0, "
    "plan.weights[name].size_bytes), weight_content(name))"
)
SOURCE = "lending.md 5, invariant 3"
