"""Checkpoints lie where parked conversations do."""

MODULE = "strata.core.serving.checkpoints"
FRAGMENT = "plan.options.parked_bytes + checkpoint.slot_index * _slot_bytes(plan)"
REPLACEMENT = "checkpoint.slot_index * _slot_bytes(plan)"
SOURCE = "lending.md 3.5, checkpoint bytes, parked bytes"
