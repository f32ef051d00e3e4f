"""ModelSpec -> what the planner is told. Decides nothing: sizes only."""

from collections.abc import Iterable

from strata.core.inventory import DrafterInventory, ModelInventory, WeightItem
from strata.model.spec import DrafterSpec, ModelSpec, TensorInfo

OUTPUT_HEAD = "output.weight"
_DRAFT_HEAD = ".nextn.shared_head_head.weight"
FLOAT_BYTES = 4


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
        weights=_items(spec.dense.values()),
        blob_bytes=tuple(0 if blob is None else blob.size_bytes for blob in spec.blobs),
        drafter=drafter_inventory(spec.drafter) if spec.drafter else None,
        heads=(OUTPUT_HEAD,) if OUTPUT_HEAD in spec.dense else (),
        state_bytes=_state_bytes(spec),
        mixer_floats=spec.mixer_floats,
        journal_bytes=FLOAT_BYTES * spec.recurrent.journal_floats if spec.recurrent else 0,
    )


def drafter_inventory(drafter: DrafterSpec) -> DrafterInventory:
    """Its experts are the block, a draft head of its own is told from its other dense tensors."""
    heads = [info for name, info in drafter.dense.items() if name.endswith(_DRAFT_HEAD)]
    return DrafterInventory(
        num_experts=drafter.num_experts,
        blob_bytes=drafter.blob.size_bytes if drafter.blob else 0,
        weights=_items(info for info in drafter.dense.values() if info not in heads),
        heads=_items(heads),
    )


def _items(tensors: Iterable[TensorInfo]) -> tuple[WeightItem, ...]:
    return tuple(WeightItem(info.name, info.size_bytes) for info in tensors)


def _state_bytes(spec: ModelSpec) -> tuple[int, ...]:
    """State is float32 on every body: it is summed into over a whole conversation."""
    if spec.recurrent is None:
        return ()
    return tuple(FLOAT_BYTES * spec.recurrent.state_floats if flag else 0 for flag in spec.is_recurrent)
