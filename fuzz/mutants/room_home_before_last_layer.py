"""Slots of the room go home while a later layer may still use them."""

MODULE = "strata.core.serving.borrowing"
FRAGMENT = "    if chunk.pending or not (chunk.is_streaming or chunk.layer >= plan.inventory.last_moe_layer):"
REPLACEMENT = "    if chunk.pending:"
SOURCE = "lending.md 4.1, reclaim of a room slot waits for used after its last entry"
