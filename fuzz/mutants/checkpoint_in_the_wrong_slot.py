"""A state goes to the first slot whatever is kept there."""

MODULE = "strata.core.serving.checkpoints"
FRAGMENT = "plan.options.parked_bytes + checkpoint.slot_index * _slot_bytes(plan)"
REPLACEMENT = "plan.options.parked_bytes"
SOURCE = "lending.md 5, invariant 38"
