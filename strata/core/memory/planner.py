"""Who gets which bytes of the card, decided once before anything is loaded.

    | weights | table | kv | verifier | prompt: buffers, ring | expert cache: one sized slot a resident blob ... |

Every phase's peak is in the plan, so nothing is allocated after start. What is left when everything else has its bytes
becomes expert-cache slots. The prompt arena may take a quarter of the bytes that the fixed regions leave; lending will
make it larger without taking slots for good.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from strata.core.errors import Refusal
from strata.core.extent import Extent
from strata.core.inventory import ModelInventory
from strata.core.kv import KvFormat, kv_layer_bytes
from strata.core.memory.layout import (
    Bump,
    PromptLayout,
    VerifierLayout,
    carve_prompt,
    carve_verifier,
    price_prompt,
    table_bytes,
)
from strata.core.memory.pack import PackLayout, plan_pack
from strata.core.memory.staging import StagingLayout, plan_staging
from strata.core.units import SLOT_ALIGNMENT_BYTES, align_up

CHUNK_GRID_TOKENS = 256
MAX_CHUNK_TOKENS = 8192
STREAM_ALL_TOKENS = 1024
"""Chunks of at least this many tokens stream every non-resident expert; shorter ones only those the router chose."""
ROUTED_RING_SLOTS = 8
MIN_STREAM_RING_SLOTS = 16
STREAM_RING_BYTES = 384 * 1_382_400
"""B of `lending.md` 6: the byte budget of a full ring."""
PROMPT_SHARE = 4
"""The prompt arena takes at most one part in PROMPT_SHARE of what the fixed regions leave."""


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """None chooses. `num_cache_slots` caps the expert cache below what fits."""

    context_tokens: int
    kv_format: KvFormat = KvFormat.F16
    window_rows: int = 1
    chunk_tokens: int | None = None
    ring_slots: int | None = None
    num_cache_slots: int | None = None


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


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole card and the host memory beside it. Regions are disjoint, in address order, and end within
    `arena_bytes`."""

    inventory: ModelInventory
    options: PlanOptions
    arena_bytes: int
    regions: tuple[Region, ...]
    weights: Mapping[str, Extent]
    table: Extent
    kv: tuple[Extent, ...]
    verifier: VerifierLayout
    prompt: PromptLayout
    slots: tuple[Slot, ...]
    pack: PackLayout
    staging: StagingLayout

    @property
    def used_bytes(self) -> int:
        return self.regions[-1].extent.end_bytes

    @property
    def num_missing_pairs(self) -> int:
        """Blobs that have no slot and are read over the link."""
        return self.inventory.num_pairs - len(self.slots)


def ring_rule(inventory: ModelInventory, *, chunk_tokens: int) -> int:
    """Ring slots of a chunk (`lending.md` 6), at most one for each blob; how many of them stay resident bounds it
    further."""
    if not inventory.num_moe_layers:
        return 0
    if chunk_tokens < STREAM_ALL_TOKENS:
        return min(inventory.num_pairs, ROUTED_RING_SLOTS)
    return min(inventory.num_pairs, max(MIN_STREAM_RING_SLOTS, STREAM_RING_BYTES // inventory.stride_bytes))


def plan_card(inventory: ModelInventory, arena_bytes: int, options: PlanOptions) -> Plan | Refusal:
    """The map of an arena of `arena_bytes`, or the bytes that are missing."""
    assert 1 <= options.context_tokens <= inventory.context_tokens, options
    bump = Bump()
    fixed = _carve_fixed(bump, inventory, options)
    left_bytes = arena_bytes - bump.offset_bytes
    for chunk_tokens, ring_slots in _prompt_shapes(inventory, left_bytes, options):
        prompt_bytes = price_prompt(inventory, chunk_tokens=chunk_tokens, ring_slots=ring_slots)
        min_bytes = prompt_bytes + _min_cache_bytes(inventory, ring_slots=ring_slots)
        if min_bytes <= left_bytes:
            if options.ring_slots is None:
                ring_slots = _fit_ring(inventory, left_bytes, options, chunk_tokens=chunk_tokens, ring_slots=ring_slots)
            prompt = carve_prompt(bump, inventory, chunk_tokens=chunk_tokens, ring_slots=ring_slots)
            slots = _fill_cache(bump, inventory, arena_bytes, options)
            return _assemble(inventory, arena_bytes, options, fixed, prompt, slots)
    return _refuse(inventory, arena_bytes, bump.offset_bytes + min_bytes, options)


@dataclass(frozen=True, slots=True)
class _Fixed:
    """Regions whose size does not depend on the chunk."""

    weights: Mapping[str, Extent]
    table: Extent
    kv: tuple[Extent, ...]
    verifier: VerifierLayout
    regions: tuple[Region, ...]


def _carve_fixed(bump: Bump, inventory: ModelInventory, options: PlanOptions) -> _Fixed:
    starts = [bump.offset_bytes]
    weights = {item.name: bump.take(item.size_bytes) for item in inventory.weights}
    starts.append(bump.offset_bytes)
    table = bump.take(table_bytes(inventory))
    starts.append(bump.offset_bytes)
    layer_bytes = kv_layer_bytes(
        kv_format=options.kv_format,
        context_tokens=options.context_tokens,
        num_kv_heads=inventory.num_kv_heads,
        head_dim=inventory.head_dim,
    )
    kv = tuple(bump.take(layer_bytes) for _ in range(inventory.num_layers))
    starts.append(bump.offset_bytes)
    verifier = carve_verifier(bump, inventory, max_rows=options.window_rows)
    starts.append(bump.offset_bytes)
    names = ("weights", "table", "kv", "verifier")
    regions = tuple(
        Region(name, Extent(start, end - start)) for name, start, end in zip(names, starts, starts[1:], strict=False)
    )
    return _Fixed(weights, table, kv, verifier, regions)


def _prompt_shapes(inventory: ModelInventory, left_bytes: int, options: PlanOptions) -> Iterator[tuple[int, int]]:
    """(chunk_tokens, ring_slots) worth trying, best first; the last one is the smallest there is."""
    longest = min(MAX_CHUNK_TOKENS, align_up(options.context_tokens, CHUNK_GRID_TOKENS))
    chunks = (
        (options.chunk_tokens,)
        if options.chunk_tokens is not None
        else range(longest, CHUNK_GRID_TOKENS - 1, -CHUNK_GRID_TOKENS)
    )
    if options.ring_slots is None and options.num_cache_slots is None:
        whole_bytes = sum(pair_bytes for _, _, pair_bytes in _pairs(inventory))
        for chunk_tokens in chunks:
            if price_prompt(inventory, chunk_tokens=chunk_tokens, ring_slots=0) + whole_bytes <= left_bytes:
                yield chunk_tokens, 0
    shapes = [
        (chunk, ring_rule(inventory, chunk_tokens=chunk) if options.ring_slots is None else options.ring_slots)
        for chunk in chunks
    ]
    for chunk_tokens, ring_slots in shapes:
        price_bytes = price_prompt(inventory, chunk_tokens=chunk_tokens, ring_slots=ring_slots)
        if price_bytes <= left_bytes // PROMPT_SHARE:
            yield chunk_tokens, ring_slots
    yield shapes[-1]


def _pairs(inventory: ModelInventory) -> Iterator[tuple[int, int, int]]:
    """(layer, expert, bytes of its slot) in the order in which blobs become resident: expert by expert over all layers,
    so that every layer keeps the same share."""
    for expert in range(inventory.num_experts):
        for layer, blob_bytes in enumerate(inventory.blob_bytes):
            if blob_bytes:
                yield layer, expert, align_up(blob_bytes, SLOT_ALIGNMENT_BYTES)


def _min_cache_bytes(inventory: ModelInventory, *, ring_slots: int) -> int:
    """Without a ring every blob must be resident; with one, the cache holds at least the experts of one token."""
    sizes = [pair_bytes for _, _, pair_bytes in _pairs(inventory)]
    return sum(sizes if ring_slots == 0 else sizes[: inventory.num_experts_used])


def _fit_ring(
    inventory: ModelInventory, left_bytes: int, options: PlanOptions, *, chunk_tokens: int, ring_slots: int
) -> int:
    """A ring no longer than the number of blobs that do not become resident beside it. A shorter ring leaves room for
    more residents, so it is shortened until both agree."""
    while ring_slots:
        prompt_bytes = price_prompt(inventory, chunk_tokens=chunk_tokens, ring_slots=ring_slots)
        num_resident = len(_fill_cache(Bump(), inventory, left_bytes - prompt_bytes, options))
        num_missing = max(1, inventory.num_pairs - num_resident)
        if num_missing >= ring_slots:
            break
        ring_slots = num_missing
    return ring_slots


def _fill_cache(bump: Bump, inventory: ModelInventory, arena_bytes: int, options: PlanOptions) -> tuple[Slot, ...]:
    slots: list[Slot] = []
    most = inventory.num_pairs if options.num_cache_slots is None else options.num_cache_slots
    for layer, expert, pair_bytes in _pairs(inventory):
        if len(slots) >= most or bump.offset_bytes + pair_bytes > arena_bytes:
            break
        slots.append(Slot(layer, expert, bump.take(pair_bytes).part(offset_bytes=0, size_bytes=pair_bytes)))
    return tuple(slots)


def _assemble(
    inventory: ModelInventory,
    arena_bytes: int,
    options: PlanOptions,
    fixed: _Fixed,
    prompt: PromptLayout,
    slots: tuple[Slot, ...],
) -> Plan:
    start = fixed.regions[-1].extent.end_bytes
    ring_start = prompt.ring[0].offset_bytes if prompt.ring else align_up(prompt.addresses.end_bytes, 256)
    cache_start = align_up(prompt.ring[-1].end_bytes, 256) if prompt.ring else ring_start
    cache_end = slots[-1].extent.end_bytes if slots else cache_start
    regions = (
        *fixed.regions,
        Region("prompt", Extent(start, ring_start - start)),
        Region("ring", Extent(ring_start, cache_start - ring_start)),
        Region("cache", Extent(cache_start, cache_end - cache_start)),
    )
    plan = Plan(
        inventory=inventory,
        options=options,
        arena_bytes=arena_bytes,
        regions=tuple(region for region in regions if region.extent.size_bytes),
        weights=fixed.weights,
        table=fixed.table,
        kv=fixed.kv,
        verifier=fixed.verifier,
        prompt=prompt,
        slots=slots,
        pack=plan_pack(inventory),
        staging=plan_staging(inventory, chunk_tokens=prompt.chunk_tokens, window_rows=options.window_rows),
    )
    check_plan(plan)
    return plan


def check_plan(plan: Plan) -> None:
    """Regions follow one another without overlap and end within the arena; every slot and buffer lies in its own."""
    end_bytes = 0
    for region in plan.regions:
        assert region.extent.offset_bytes >= end_bytes, region
        end_bytes = region.extent.end_bytes
    assert end_bytes <= plan.arena_bytes, (end_bytes, plan.arena_bytes)
    extents = {region.name: region.extent for region in plan.regions}
    assert all(extents["cache"].contains(slot.extent) for slot in plan.slots)
    assert all(extents["ring"].contains(slot) for slot in plan.prompt.ring)
    assert all(extents["kv"].contains(layer) for layer in plan.kv)


def _refuse(inventory: ModelInventory, arena_bytes: int, needed_bytes: int, options: PlanOptions) -> Refusal:
    missing_bytes = needed_bytes - arena_bytes
    return Refusal(
        f"vram refused: {needed_bytes:,} B are needed at least (dense weights {inventory.dense_bytes:,} B, K/V for "
        f"{options.context_tokens:,} tokens, one window, a prompt chunk and the experts of one token), the card has "
        f"{arena_bytes:,} B, {missing_bytes:,} B are missing; raise --vram or lower --ctx",
        missing_bytes,
    )
