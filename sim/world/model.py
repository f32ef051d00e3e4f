"""The bytes of a world's weights: where they lie in the pack, under which names, and who reads which beside the cache.

Contents are the model's alone; places come from the plan, as they do for whoever launches.
"""

import struct
from functools import lru_cache
from zlib import crc32

from sim.world.geometry import Geometry
from sim.world.loans import block_blobs
from sim.world.programs import Model
from sim.world.rows import Part
from strata.core.commands import Access
from strata.core.extent import HostExtent
from strata.core.inventory import WeightItem
from strata.core.memory.planner import Plan


@lru_cache(maxsize=2048)
def blob_bytes_of(layer: int, expert: int, size_bytes: int) -> bytes:
    """Position-dependent, so that neither another blob nor the same one shifted is equal to it."""
    return _numbered(layer << 24 | expert << 16, size_bytes)


@lru_cache(maxsize=64)
def weight_bytes_of(name: str, size_bytes: int) -> bytes:
    return _numbered(crc32(name.encode()) & 0xFFFF_0000, size_bytes)


def _numbered(first: int, size_bytes: int) -> bytes:
    num_words = -(-size_bytes // 4)
    return struct.pack(f"<{num_words}I", *range(first, first + num_words))[:size_bytes]


def trunk_blobs(geometry: Geometry) -> dict[tuple[int, int], bytes]:
    return {
        (layer, expert): blob_bytes_of(geometry.first_layer + layer, expert, size_bytes)
        for layer, size_bytes in enumerate(geometry.blob_bytes)
        if size_bytes
        for expert in range(geometry.num_experts)
    }


def model_of(geometry: Geometry, plan: Plan) -> Model:
    """What the programs of a card know."""
    first, drafter_layer = geometry.first_layer, geometry.layers.stop
    blobs = {(first + layer, expert): blob for (layer, expert), blob in trunk_blobs(geometry).items()}
    if geometry.drafts:
        for expert in range(geometry.drafter_experts):
            blobs[drafter_layer, expert] = blob_bytes_of(drafter_layer, expert, geometry.drafter_blob_bytes)
    heads = geometry.draft_heads or (geometry.heads if geometry.drafter_experts else ())
    return Model(
        blobs,
        geometry.num_experts,
        head_parts(geometry, plan),
        drafter_parts(geometry, plan),
        [_part(plan, item) for item in geometry.draft_weights],
        [_part(plan, item) for item in heads],
        first_layer=first,
        drafter_layer=drafter_layer if geometry.drafter_experts else -1,
        drafter_experts=geometry.drafter_experts,
    )


def masters(geometry: Geometry, plan: Plan) -> list[tuple[HostExtent, str, bytes]]:
    """(place in the pack, name, bytes) of everything that has bytes of its own to be compared with."""
    rows = [
        (plan.pack.blobs[layer][expert], f"blob {layer} {expert}", blob)
        for (layer, expert), blob in trunk_blobs(geometry).items()
    ]
    size_bytes = geometry.drafter_blob_bytes
    rows += [
        (home, f"blob {geometry.num_layers} {expert}", blob_bytes_of(geometry.layers.stop, expert, size_bytes))
        for expert, home in enumerate(plan.pack.block)
    ]
    named = (*geometry.heads, *geometry.draft_heads, *geometry.draft_weights)
    return [*rows, *((plan.pack.weights[w.name], f"weight {w.name}", _bytes_of(w)) for w in named)]


def head_parts(geometry: Geometry, plan: Plan) -> list[Part]:
    """What the output head of its own reads."""
    return [_part(plan, item) for item in geometry.heads]


def drafter_parts(geometry: Geometry, plan: Plan) -> list[Part]:
    """What a drafter reads: its experts, its own weights, and a head, its own or the model's."""
    layer, size_bytes = geometry.num_layers, geometry.drafter_blob_bytes
    parts = [
        Part(Access(extent, "block", f"blob {layer} {expert}"), blob_bytes_of(geometry.layers.stop, expert, size_bytes))
        for expert, extent in enumerate(block_blobs(geometry, plan.block))
    ]
    heads = geometry.draft_heads or (geometry.heads if geometry.drafter_experts else ())
    return [*parts, *(_part(plan, item) for item in (*geometry.draft_weights, *heads))]


def _part(plan: Plan, item: WeightItem) -> Part:
    return Part(Access(plan.weights[item.name], plan.owners[item.name], f"weight {item.name}"), _bytes_of(item))


def _bytes_of(item: WeightItem) -> bytes:
    return weight_bytes_of(item.name, item.size_bytes)
