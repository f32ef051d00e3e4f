"""Who gets which bytes of the card, decided once before anything is loaded.

    | weights | table | kv | state | verifier | drafter | scratch | expert cache: a slot a blob | reads borrow its tail
    | weights | table | kv | state | verifier | drafter | scratch | prompt: buffers, ring | cache  | and have their own

Every phase's peak is in the plan, so nothing is allocated after start. What is left when everything else has its bytes
becomes expert-cache slots. Reads borrow the tail of the cache where that gives as large a chunk as an arena of their
own would, which may take a quarter of the bytes that the fixed regions leave. A model that fits whole keeps that arena:
there is nothing to gain by lending. Where segments move for a read, the cache must end where the arena ends, since they
go behind it: then reads borrow, or the start is refused. So do reads whose programs work in the tail of what they
borrow (the slab): then there is no region for scratch, and those bytes are cache.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

from strata.core.errors import Refusal
from strata.core.extent import Extent
from strata.core.inventory import ModelInventory
from strata.core.memory.bump import Bump
from strata.core.memory.fixed import BLOCK, FixedRegions, carve_fixed
from strata.core.memory.layout import PromptLayout, carve_prompt, price_prompt
from strata.core.memory.pack import PackLayout, plan_pack
from strata.core.memory.policy import DEFAULT_MIN_CACHE_SLOTS, LENDABLE_PERCENT, NEVER, PAGEABLE_PERCENT, max_lent_slots
from strata.core.memory.read_plan import Lendable, ReadPlan, chunks_to_try, plan_read
from strata.core.memory.residents import fill_cache, slot_sizes
from strata.core.memory.scratch import SCRATCH, price_scratch
from strata.core.memory.shapes import PlanOptions, Region, Slot, is_mostly_pinned, ring_slots_of, room_slots
from strata.core.memory.staging import StagingLayout, plan_staging
from strata.core.memory.zone import Zone, plan_zone
from strata.core.units import SLOT_ALIGNMENT_BYTES

PROMPT_SHARE = 4
"""A prompt arena of its own takes at most one part in PROMPT_SHARE of what the fixed regions leave."""


@dataclass(frozen=True, slots=True)
class Plan(FixedRegions):
    """The whole card and the host memory beside it. Regions are disjoint, in address order, and end within
    `arena_bytes`. `lendable` is None where the prompt arena is a region of its own, and `no_loan` says why; `prompt` is
    then that arena, else the layout of the longest read with all that it may borrow. `slots`: those of the cache, with
    what lies in them unless a start is warm. `room`: the ring slots in the block. `zone` is None unless segments may
    move. `staged`: of each layer, the experts that neither a slot nor pinned memory has; () where there are none, and
    windows are graphs."""

    inventory: ModelInventory
    options: PlanOptions
    arena_bytes: int
    room: tuple[Extent, ...]
    zone: Zone | None
    prompt: PromptLayout
    slots: tuple[Slot, ...]
    lendable: Lendable | None
    no_loan: str
    pack: PackLayout
    staging: StagingLayout
    staged: tuple[frozenset[int], ...]

    @property
    def num_missing_pairs(self) -> int:
        """Blobs that have no slot and are read over the link."""
        return self.inventory.num_pairs - len(self.slots)

    def read(
        self, path_tokens: int, *, has_segments: bool = False, has_room: bool = False, chunk_tokens: int | None = None
    ) -> ReadPlan:
        """The geometry for a read whose prompt path takes `path_tokens`: all fresh tokens but the last.
        `has_segments`: the zone's segments are behind the arena while it runs; `has_room`: `with_room` will give it the
        room; `chunk_tokens`: the chunk that all stages agreed on, no larger than this one's own."""
        if self.lendable is None:
            arena, prompt = self.region("prompt"), self.prompt
            prompt = replace(prompt, chunk_tokens=chunk_tokens) if chunk_tokens else prompt
            return ReadPlan(prompt, arena, (), Extent(arena.end_bytes, 0), len(prompt.ring))
        options = replace(self.options, chunk_tokens=chunk_tokens) if chunk_tokens else self.options
        behind_bytes = self.behind_bytes if has_segments else 0
        lendable = replace(self.lendable, num_room_slots=len(self.room)) if has_room else self.lendable
        read = plan_read(self.inventory, lendable, options, path_tokens=path_tokens, behind_bytes=behind_bytes)
        assert not isinstance(read, Refusal), "the longest read had a plan, so a shorter one has"
        return read

    def region(self, name: str) -> Extent:
        return next(region.extent for region in self.regions if region.name == name)

    @property
    def moves_block(self) -> bool:
        """Whether some of the block is away under an elastic loan."""
        return self.zone is not None and any(part.name == BLOCK for part in self.zone.parts)

    @property
    def behind_bytes(self) -> int:
        """Addresses that the device must reserve behind the arena."""
        return self.zone.size_bytes if self.zone else 0


def plan_card(inventory: ModelInventory, arena_bytes: int, options: PlanOptions) -> Plan | Refusal:
    """The map of an arena of `arena_bytes`, or the bytes that are missing. Where windows must stage blobs, all is
    planned once more, with slots for as many as a window of all rows may choose in a layer."""
    plan = _plan(inventory, arena_bytes, options)
    if isinstance(plan, Refusal) or not (num_pageable := plan.pack.num_pageable_blobs):
        return plan
    if options.num_swaps:
        blobs = f"{num_pageable:,} blobs lie behind the {plan.pack.pinned_bytes:,} B that are pinned"
        advice = "leave --cache-swaps out or raise --resident-budget-gib"
        return Refusal(f"cache swaps refused: num_swaps={options.num_swaps}, and {blobs}; {advice}")
    num_staged = min(options.window_rows * inventory.num_experts_used, inventory.num_experts)
    return _plan(inventory, arena_bytes, replace(options, num_staged=num_staged)) if plan.staged else plan


def _plan(inventory: ModelInventory, arena_bytes: int, options: PlanOptions) -> Plan | Refusal:
    assert 1 <= options.context_tokens <= inventory.context_tokens, options
    fixed = carve_fixed(inventory, options)
    stride_bytes = inventory.stride_bytes
    if options.policy.room_min_tokens != NEVER and not room_slots(fixed.block.size_bytes, stride_bytes):
        return Refusal(
            f"room refused: the drafter's block has {fixed.block.size_bytes:,} B, a ring slot {stride_bytes:,} B; "
            "unset STRATA_MTP_ROOM_MIN"
        )
    if options.policy.is_elastic or (options.has_slab and inventory.prompt_work):
        return _plan_borrowing(inventory, arena_bytes, options, fixed)
    own = _plan_own_arena(inventory, arena_bytes, options, fixed)
    if isinstance(own, Refusal) or not own.num_missing_pairs:
        return own
    lent = _plan_lent_arena(inventory, arena_bytes, options, fixed)
    if isinstance(lent, Refusal):
        return replace(own, no_loan=lent.reason)
    if lent.prompt.chunk_tokens < own.prompt.chunk_tokens:
        return replace(own, no_loan=f"a loan would give chunks of {lent.prompt.chunk_tokens:,} tokens only")
    return lent


def _plan_borrowing(
    inventory: ModelInventory, arena_bytes: int, options: PlanOptions, fixed: FixedRegions
) -> Plan | Refusal:
    """Reads must borrow: segments go behind the cache for them, or their programs work in the tail of a loan."""
    sizes = {"segment_bytes": options.segment_bytes, "arena_bytes": arena_bytes}
    zone = plan_zone(fixed.regions, fixed.lent, **sizes) if options.policy.is_elastic else None
    if isinstance(zone, Refusal):
        return zone
    plan = _plan_lent_arena(inventory, arena_bytes, options, fixed, zone)
    if isinstance(plan, Plan):
        return plan
    if zone is not None:
        return replace(plan, reason=f"elastic loan refused: reads must borrow cache slots; {plan.reason}")
    slab = f"programs of a chunk work in the tail of what reads borrow; {plan.reason}, or unset STRATA_MMQ_SLAB"
    return replace(plan, reason=f"slab refused: {slab}")


def _plan_own_arena(
    inventory: ModelInventory, arena_bytes: int, options: PlanOptions, fixed: FixedRegions
) -> Plan | Refusal:
    bump = Bump(fixed.end_bytes)
    left_bytes = arena_bytes - bump.offset_bytes
    least_bytes: int | None = None
    for chunk_tokens, ring_slots in _prompt_shapes(inventory, left_bytes, options):
        prompt_bytes = _own_bytes(inventory, chunk_tokens=chunk_tokens, ring_slots=ring_slots)
        min_bytes = prompt_bytes + _min_cache_bytes(inventory, options, ring_slots=ring_slots)
        least_bytes = min_bytes if least_bytes is None else min(least_bytes, min_bytes)
        if min_bytes <= left_bytes:
            if options.ring_slots is None:
                ring_slots = _fit_ring(inventory, left_bytes, options, chunk_tokens=chunk_tokens, ring_slots=ring_slots)
            scratch = bump.take(price_scratch(inventory, chunk_tokens=chunk_tokens))
            sizes = {"chunk_tokens": chunk_tokens, "ring_slots": ring_slots}
            prompt = carve_prompt(bump, inventory, **sizes, scratch=scratch)
            region = Region("prompt", Extent(scratch.end_bytes, bump.offset_bytes - scratch.end_bytes))
            slots = fill_cache(bump, inventory, arena_bytes, options)
            cache = Region("cache", Extent(region.extent.end_bytes, bump.offset_bytes - region.extent.end_bytes))
            rest = (Region(SCRATCH, scratch), region, cache)
            return _assemble(inventory, arena_bytes, options, fixed, rest, prompt, slots, None)
    assert least_bytes is not None
    return _refuse(inventory, arena_bytes, bump.offset_bytes + least_bytes, options)


def _own_bytes(inventory: ModelInventory, *, chunk_tokens: int, ring_slots: int) -> int:
    """Of a prompt arena, and of the region that its programs work in."""
    prompt_bytes = price_prompt(inventory, chunk_tokens=chunk_tokens, ring_slots=ring_slots, has_slab=False)
    return prompt_bytes + price_scratch(inventory, chunk_tokens=chunk_tokens)


def _plan_lent_arena(
    inventory: ModelInventory, arena_bytes: int, options: PlanOptions, fixed: FixedRegions, zone: Zone | None = None
) -> Plan | Refusal:
    """The cache takes all that is left, and reads borrow from it, unless it may not lend enough for a chunk. A larger
    region for scratch allows larger chunks and leaves fewer bytes to borrow for them: each size that some chunk needs
    is tried, and the largest chunk wins."""
    end_bytes = arena_bytes // SLOT_ALIGNMENT_BYTES * SLOT_ALIGNMENT_BYTES
    best: tuple[Extent, Lendable, ReadPlan] | None = None
    refused: Refusal | None = None
    for scratch_bytes in _scratch_sizes(inventory, options):
        scratch = Extent(fixed.end_bytes, scratch_bytes)
        lendable = _lend_cache(inventory, end_bytes, options, scratch)
        longest = _plan_longest(inventory, lendable, options, zone)
        if isinstance(longest, Refusal):
            refused = longest
        elif best is None or longest.layout.chunk_tokens >= best[2].layout.chunk_tokens:
            best = scratch, lendable, longest
    if best is None:
        assert refused is not None
        return refused
    scratch, lendable, longest = best
    rest = (Region(SCRATCH, scratch), Region("cache", Extent(scratch.end_bytes, end_bytes - scratch.end_bytes)))
    return _assemble(inventory, arena_bytes, options, fixed, rest, longest.layout, lendable.slots, lendable, zone)


def _scratch_sizes(inventory: ModelInventory, options: PlanOptions) -> list[int]:
    """Bytes of a region for scratch worth trying, largest first; none is needed with a slab."""
    if options.has_slab:
        return [0]
    chunks = chunks_to_try(options, options.context_tokens)
    return sorted({price_scratch(inventory, chunk_tokens=chunk) for chunk in chunks}, reverse=True)


def _lend_cache(inventory: ModelInventory, end_bytes: int, options: PlanOptions, scratch: Extent) -> Lendable:
    """A cache of all that is left behind `scratch`, and how much of it may be lent."""
    slots = fill_cache(Bump(scratch.end_bytes), inventory, end_bytes, options)
    percent = LENDABLE_PERCENT if is_mostly_pinned(inventory, options) else PAGEABLE_PERCENT
    max_lent = max_lent_slots(len(slots), min_cache_slots=_fewest_kept(options), percent=percent)
    return Lendable(slots, end_bytes, max_lent, None if options.has_slab else scratch)


def _fewest_kept(options: PlanOptions) -> int:
    return DEFAULT_MIN_CACHE_SLOTS if options.min_cache_slots is None else options.min_cache_slots


def _plan_longest(
    inventory: ModelInventory, lendable: Lendable, options: PlanOptions, zone: Zone | None
) -> ReadPlan | Refusal:
    """The longest read, with all that it may borrow; it must be possible without moved segments too."""
    longest = plan_read(inventory, lendable, options, path_tokens=options.context_tokens)
    if isinstance(longest, Refusal):
        if lendable.max_lent:
            return longest
        return Refusal(
            f"no loan: the cache has {len(lendable.slots):,} slots and keeps {_fewest_kept(options):,}; lower "
            "--cache-min-slots to let it lend",
            longest.shortfall_bytes,
        )
    if zone is None:
        return longest
    behind_bytes = zone.size_bytes
    longest = plan_read(inventory, lendable, options, path_tokens=options.context_tokens, behind_bytes=behind_bytes)
    assert not isinstance(longest, Refusal), "more bytes were offered than were enough before"
    return longest


def _prompt_shapes(inventory: ModelInventory, left_bytes: int, options: PlanOptions) -> Iterator[tuple[int, int]]:
    """(chunk_tokens, ring_slots) worth trying, best first; the smallest ones there are come last, so that a refusal
    knows what is missing at least."""
    chunks = tuple(chunks_to_try(options, options.context_tokens))
    if options.ring_slots is None and options.num_cache_slots is None:
        whole_bytes = sum(pair_bytes for _, _, pair_bytes in slot_sizes(inventory))
        for chunk_tokens in chunks:
            if _own_bytes(inventory, chunk_tokens=chunk_tokens, ring_slots=0) + whole_bytes <= left_bytes:
                yield chunk_tokens, 0
    shapes = [(chunk, ring_slots_of(inventory, options, chunk_tokens=chunk)) for chunk in chunks]
    for chunk_tokens, ring_slots in shapes:
        price_bytes = _own_bytes(inventory, chunk_tokens=chunk_tokens, ring_slots=ring_slots)
        if price_bytes <= left_bytes // PROMPT_SHARE:
            yield chunk_tokens, ring_slots
    yield shapes[-1]
    if options.ring_slots is None and options.num_cache_slots is None:
        # It did not fit above, but where nearly all blobs must be resident, all of them may be what misses least.
        yield shapes[-1][0], 0


def _min_cache_bytes(inventory: ModelInventory, options: PlanOptions, *, ring_slots: int) -> int:
    """Without a ring every blob must be resident; with one, the cache holds at least the slots that were asked for, or
    the experts of one token."""
    sizes = [pair_bytes for _, _, pair_bytes in slot_sizes(inventory)]
    fewest = inventory.num_experts_used if options.min_cache_slots is None else options.min_cache_slots
    return sum(sizes if ring_slots == 0 else sizes[:fewest])


def _fit_ring(
    inventory: ModelInventory, left_bytes: int, options: PlanOptions, *, chunk_tokens: int, ring_slots: int
) -> int:
    """A ring no longer than the number of blobs that do not become resident beside it. A shorter ring leaves room for
    more residents, so it is shortened until both agree."""
    while ring_slots:
        prompt_bytes = _own_bytes(inventory, chunk_tokens=chunk_tokens, ring_slots=ring_slots)
        num_resident = len(fill_cache(Bump(), inventory, left_bytes - prompt_bytes, options))
        num_missing = max(1, inventory.num_pairs - num_resident)
        if num_missing >= ring_slots:
            break
        ring_slots = num_missing
    return ring_slots


def _assemble(
    inventory: ModelInventory,
    arena_bytes: int,
    options: PlanOptions,
    fixed: FixedRegions,
    rest: tuple[Region, ...],
    prompt: PromptLayout,
    slots: tuple[Slot, ...],
    lendable: Lendable | None,
    zone: Zone | None = None,
) -> Plan:
    stride_bytes = inventory.stride_bytes
    resident = {(slot.layer, slot.expert) for slot in slots}
    pack = plan_pack(inventory, pinned_bytes=options.pinned_bytes, resident=resident)
    num_room_slots = room_slots(fixed.block.size_bytes, stride_bytes)
    room = [fixed.block.part(offset_bytes=i * stride_bytes, size_bytes=stride_bytes) for i in range(num_room_slots)]
    own = {field.name: getattr(fixed, field.name) for field in fields(fixed)}
    own["regions"] = tuple(region for region in (*fixed.regions, *rest) if region.extent.size_bytes)
    return Plan(
        **own,
        inventory=inventory,
        options=options,
        arena_bytes=arena_bytes,
        room=tuple(room),
        zone=zone,
        prompt=prompt,
        slots=slots,
        lendable=lendable,
        no_loan="" if lendable else "no loan: nothing is read over the link",
        pack=pack,
        staging=plan_staging(
            inventory,
            chunk_tokens=prompt.chunk_tokens,
            window_rows=options.window_rows,
            usage_bytes=fixed.verifier.window.usage.size_bytes,
            num_digests=_num_digests(inventory, fixed, slots, num_room_slots) if options.policy.is_verified else 0,
        ),
        staged=pack.missing(resident),
    )


def _num_digests(inventory: ModelInventory, fixed: FixedRegions, slots: tuple[Slot, ...], num_room_slots: int) -> int:
    """At most: every slot, every weight that may be away, and every expert of the block, cut by the end of each room
    slot."""
    num_experts = inventory.drafter.num_experts if inventory.drafter else 0
    return len(slots) + len(fixed.weights) + num_experts + num_room_slots


def _refuse(inventory: ModelInventory, arena_bytes: int, needed_bytes: int, options: PlanOptions) -> Refusal:
    """Says what was asked for beyond the least there is, since that could be asked for less."""
    missing_bytes = needed_bytes - arena_bytes
    chunk, ring, cache, remedies = "a prompt chunk", "", "the experts of one token", ["raise --vram", "lower --ctx"]
    if options.chunk_tokens is not None:
        chunk = f"a prompt chunk of {options.chunk_tokens:,} tokens"
        remedies.append("lower --prefill")
    if options.ring_slots is not None:
        ring = f", a ring of {options.ring_slots:,} slots"
        remedies.append("lower STRATA_PREFILL_RING")
    if options.min_cache_slots is not None:
        cache = f"{options.min_cache_slots:,} cache slots"
        remedies.append("lower --cache-min-slots")
    if options.num_staged:
        remedies.append("raise --resident-budget-gib")
    return Refusal(
        f"vram refused: {needed_bytes:,} B are needed at least (dense weights {inventory.dense_bytes:,} B, K/V for "
        f"{options.context_tokens:,} tokens, one window, {chunk}{ring} and {cache}), the card has {arena_bytes:,} B, "
        f"{missing_bytes:,} B are missing; {', '.join(remedies[:-1])} or {remedies[-1]}",
        missing_bytes,
    )
