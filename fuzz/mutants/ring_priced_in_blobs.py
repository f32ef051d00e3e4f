"""Ring slots lie at the smallest blob, not at the stride."""

MODULE = "strata.core.memory.layout"
FRAGMENT = "stride_bytes = inventory.stride_bytes"
REPLACEMENT = "stride_bytes = min(size for size in inventory.blob_bytes if size) if inventory.num_moe_layers else 0"
SOURCE = "lending.md 7, ring priced in slots instead of bytes"
