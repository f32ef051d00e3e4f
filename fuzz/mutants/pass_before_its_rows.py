"""A stage begins a pass one ahead of the rows that it takes in."""

MODULE = "strata.core.serving.pipeline"
FRAGMENT = "return number < self._num_over(state, stage - 1)"
REPLACEMENT = "return number <= self._num_over(state, stage - 1)"
SOURCE = "lending.md 4.1"
