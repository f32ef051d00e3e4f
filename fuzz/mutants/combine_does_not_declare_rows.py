"""Combine does not declare what the experts left."""

MODULE = "strata.core.serving.launches"
FRAGMENT = "summed = (buffers.expert_rows, buffers.router_weights, buffers.hidden)"
REPLACEMENT = "summed = (buffers.router_weights, buffers.hidden)"
SOURCE = "docs/design.md 3, every command lists what it reads"
