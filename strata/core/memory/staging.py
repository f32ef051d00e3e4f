"""Pinned host buffers that carry a request's inputs to the card and its results back.

Each buffer has one use, and is written again only after the copy that read it before is known to be done
(`lending.md` 4.1, host staging): prompt buffers once a layer's notice arrived, window buffers between requests.
"""

from dataclasses import dataclass

from strata.core.extent import HostExtent, HostSpace
from strata.core.inventory import ModelInventory
from strata.core.memory.layout import FLOAT_BYTES, INT32_BYTES, INT64_BYTES, table_bytes
from strata.core.programs import HEADER_BYTES, RESULT_BYTES
from strata.core.serving.request import SAMPLING_BYTES
from strata.core.units import SLOT_ALIGNMENT_BYTES, align_up

DIGEST_BYTES = 8
ROW_BUFFERS = 3
"""A pair to hand rows over in, one to take them in."""


@dataclass(frozen=True, slots=True)
class StagingLayout:
    """Shapes as the device extents of the same name. `prompt_addresses`: int64 [num_layers, num_experts].
    `chunk_rows`, `window_rows`: ROW_BUFFERS times the hidden rows of a pass, at the borders of a stage."""

    prompt_header: HostExtent
    prompt_tokens: HostExtent
    next_tokens: HostExtent
    prompt_addresses: HostExtent
    router_counts: HostExtent
    window_header: HostExtent
    window_tokens: HostExtent
    params: HostExtent
    bias: HostExtent
    seen: HostExtent
    terminators: HostExtent
    table: HostExtent
    usage: HostExtent
    result: HostExtent
    draft_addresses: HostExtent
    digests: HostExtent
    chunk_rows: HostExtent
    window_rows: HostExtent
    size_bytes: int


def plan_staging(
    inventory: ModelInventory, *, chunk_tokens: int, window_rows: int, num_digests: int = 0, usage_bytes: int = 0
) -> StagingLayout:
    """`usage_bytes`: of what windows count. `num_digests`: pieces that come home at once, where each is verified."""
    sizes = {
        "prompt_header": HEADER_BYTES,
        "prompt_tokens": chunk_tokens * INT32_BYTES,
        "next_tokens": chunk_tokens * INT32_BYTES if inventory.drafter else 0,
        "prompt_addresses": table_bytes(inventory),
        "router_counts": inventory.num_experts * INT32_BYTES if inventory.num_moe_layers else 0,
        "window_header": HEADER_BYTES,
        "window_tokens": window_rows * INT32_BYTES,
        "params": SAMPLING_BYTES,
        "bias": inventory.vocab_size * FLOAT_BYTES,
        "seen": inventory.vocab_size,
        "terminators": inventory.vocab_size,
        "table": table_bytes(inventory),
        "usage": usage_bytes,
        "result": RESULT_BYTES,
        "digests": num_digests * DIGEST_BYTES,
        "draft_addresses": inventory.drafter.num_experts * INT64_BYTES if inventory.drafter else 0,
    }
    is_part = inventory.first_layer > 0 or not inventory.has_head
    rows_bytes = ROW_BUFFERS * inventory.hidden_size * inventory.activation_bytes if is_part else 0
    sizes |= {"chunk_rows": chunk_tokens * rows_bytes, "window_rows": window_rows * rows_bytes}
    offset_bytes = 0
    extents: dict[str, HostExtent] = {}
    for name, size_bytes in sizes.items():
        extents[name] = HostExtent(HostSpace.STAGING, offset_bytes, size_bytes)
        offset_bytes = align_up(offset_bytes + size_bytes, SLOT_ALIGNMENT_BYTES)
    return StagingLayout(**extents, size_bytes=offset_bytes)
