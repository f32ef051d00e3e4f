"""A recurrent launch declares the state of layer 0, whatever its layer."""

MODULE = "strata.core.serving.launches"
FRAGMENT = 'state = Access(plan.state[layer], "state")'
REPLACEMENT = 'state = Access(plan.state[0], "state")'
SOURCE = "lending.md 5, invariant 1"
