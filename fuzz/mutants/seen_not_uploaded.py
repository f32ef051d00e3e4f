"""The sampler sees which tokens the last prompt had."""

MODULE = "strata.core.serving.inputs"
FRAGMENT = ", (staging.seen, window.seen))"
REPLACEMENT = ")"
SOURCE = "lending.md 7, request sampling lost"
