"""The words of a plan: what may be asked of the planner, what a region and a slot are, and the rule for the ring."""

from dataclasses import dataclass

from strata.core.extent import Extent
from strata.core.inventory import ModelInventory
from strata.core.kv import KvFormat, KvLayout, kv_layout
from strata.core.memory.policy import NO_LENDING, LendingPolicy

CHUNK_GRID_TOKENS = 256
MAX_CHUNK_TOKENS = 8192
STREAM_ALL_TOKENS = 1024
"""Chunks of at least this many tokens stream every non-resident expert; shorter ones only those the router chose."""
ROUTED_RING_SLOTS = 8
MIN_STREAM_RING_SLOTS = 16
STREAM_RING_BYTES = 384 * 1_382_400
"""B of `lending.md` 6: the byte budget of a full ring."""


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """None chooses. `num_cache_slots` caps the expert cache below what fits, `min_cache_slots` (by default the experts
    of one token) must fit; `max_chunk_tokens` bounds a chosen chunk and replaces MAX_CHUNK_TOKENS. `segment_bytes` is
    needed where the policy is elastic. `parked_bytes` of host memory hold parked conversations, `checkpoint_bytes`
    recurrent states, 0 for none; `is_reread`: what is found there is read again all the same (`lending.md` 3.5).
    `has_slab`: prompt scratch comes out of the tail of what is lent (3.3). Every `swap_windows` windows at most
    `num_swaps` blobs of the cache are exchanged for others, 0: they stay. `least_probability`: drafts of a drafter end
    before the first one below it. At most `pinned_bytes` of the pack are pinned, None: all; windows have `num_staged`
    slots for pageable blobs, as many as the planner says."""

    context_tokens: int
    kv_format: KvFormat = KvFormat.F16
    window_rows: int = 1
    chunk_tokens: int | None = None
    ring_slots: int | None = None
    num_cache_slots: int | None = None
    max_chunk_tokens: int | None = None
    min_cache_slots: int | None = None
    policy: LendingPolicy = NO_LENDING
    segment_bytes: int = 0
    parked_bytes: int = 0
    checkpoint_bytes: int = 0
    is_reread: bool = False
    has_slab: bool = False
    num_swaps: int = 0
    swap_windows: int = 16
    least_probability: float = 0.0
    pinned_bytes: int | None = None
    num_staged: int = 0


@dataclass(frozen=True, slots=True)
class Region:
    """A named part of the arena; `name` is the owner of its bytes."""

    name: str
    extent: Extent


@dataclass(frozen=True, slots=True)
class Slot:
    """An expert-cache slot and the blob that lives in it."""

    layer: int
    expert: int
    extent: Extent


def kv_layout_of(inventory: ModelInventory, options: PlanOptions) -> KvLayout:
    """Of every layer that has K/V."""
    return kv_layout(
        kv_format=options.kv_format,
        context_tokens=options.context_tokens,
        num_kv_heads=inventory.num_kv_heads,
        head_dim=inventory.head_dim,
    )


def is_mostly_pinned(inventory: ModelInventory, options: PlanOptions) -> bool:
    """Whether at least 90% of the expert bytes are pinned; they come first in the pack."""
    return options.pinned_bytes is None or 10 * options.pinned_bytes >= 9 * inventory.expert_bytes


def ring_slots_of(inventory: ModelInventory, options: PlanOptions, *, chunk_tokens: int, beside: int = 0) -> int:
    """As many as were asked for, or the rule's, with a quarter of its bytes where less is pinned. `beside`: ring slots
    that the room has on top; where a chunk streams, as many of the rule's make way for them, at most a third."""
    if options.ring_slots is not None:
        return options.ring_slots
    parts = 1 if is_mostly_pinned(inventory, options) else 4
    rule = ring_rule(inventory, chunk_tokens=chunk_tokens, ring_bytes=STREAM_RING_BYTES // parts)
    return rule if chunk_tokens < STREAM_ALL_TOKENS else rule - min(rule // 3, beside)


def ring_rule(inventory: ModelInventory, *, chunk_tokens: int, ring_bytes: int = STREAM_RING_BYTES) -> int:
    """Ring slots of a chunk (`lending.md` 6), at most one for each blob; how many of them stay resident bounds it
    further."""
    if not inventory.num_moe_layers:
        return 0
    if chunk_tokens < STREAM_ALL_TOKENS:
        return min(inventory.num_pairs, ROUTED_RING_SLOTS)
    return min(inventory.num_pairs, max(MIN_STREAM_RING_SLOTS, ring_bytes // inventory.stride_bytes))


def room_slots(block_bytes: int, stride_bytes: int) -> int:
    """Whole ring slots that a drafter's block has room for; 0 in a model whose experts are no blobs."""
    return block_bytes // stride_bytes if stride_bytes else 0
