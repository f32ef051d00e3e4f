"""The sampler keeps the bias of the request before."""

MODULE = "strata.core.serving.inputs"
FRAGMENT = ", (staging.bias, window.bias)"
REPLACEMENT = ""
SOURCE = "lending.md 7, request sampling lost"
