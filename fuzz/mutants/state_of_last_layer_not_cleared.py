"""The last layer's state survives into the next conversation."""

MODULE = "strata.core.serving.recurrent_state"
FRAGMENT = "for layer in plan.state if layer.size_bytes"
REPLACEMENT = "for layer in plan.state[:-1] if layer.size_bytes"
SOURCE = "lending.md 5, invariant 40"
