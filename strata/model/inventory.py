"""ModelSpec -> what the planner is told. Decides nothing: sizes only."""

from strata.core.inventory import ModelInventory, WeightItem
from strata.model.spec import ModelSpec


def inventory_of(spec: ModelSpec) -> ModelInventory:
    """Dense tensors keep their order and the size that they have in the file."""
    return ModelInventory(
        architecture=spec.architecture,
        num_layers=spec.num_layers,
        hidden_size=spec.hidden_size,
        num_heads=spec.num_heads,
        num_kv_heads=spec.num_kv_heads,
        head_dim=spec.head_dim,
        vocab_size=spec.vocab_size,
        context_tokens=spec.context_tokens,
        num_experts=spec.num_experts,
        num_experts_used=spec.num_experts_used,
        weights=tuple(WeightItem(name, info.size_bytes) for name, info in spec.dense.items()),
        blob_bytes=tuple(0 if blob is None else blob.size_bytes for blob in spec.blobs),
    )
