"""Commands of one prompt chunk, layer by layer, with expert copies running ahead through the ring.

Chunks of STREAM_ALL_TOKENS and more stream every non-resident blob in (layer, expert) order, whatever the routers
choose; the order is known at once, so copies run ahead into later layers as far as the ring has slots. Shorter chunks
ask the router first and stage only the experts it chose.

    prompt stream: attention, router | resident experts | wait copied g, experts of g, record used g | ... | combine
    copy stream:   wait used (last readers of the slots), copy group g, record copied g | ...
"""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile

from strata.core.commands import Access, Command, Copy, CopyPair, Record, Stream, Wait
from strata.core.extent import Extent, HostExtent
from strata.core.lending.loan import PROMPT
from strata.core.lending.room import Room
from strata.core.memory.layout import INT64_BYTES, PromptLayout
from strata.core.memory.planner import Plan
from strata.core.memory.ring import Ring, RingGroup, consume_group, issue_group
from strata.core.memory.shapes import STREAM_ALL_TOKENS
from strata.core.serving.launches import (
    Lane,
    Recipe,
    address_row,
    blob_content,
    launch_combine,
    launch_placed_experts,
    launch_shared_expert,
    prompt_lane,
)
from strata.core.serving.steps import Upload


@dataclass(frozen=True, slots=True)
class Addresses:
    """Device addresses of the two places a blob can be read from."""

    arena: int
    pack: int


Residents = Mapping[tuple[int, int], Access]
"""(layer, expert) -> the bytes of its blob in the expert cache."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A ring group and the experts of `layer` that it carries; `blobs`: where each of them lies."""

    layer: int
    experts: tuple[int, ...]
    group: RingGroup
    blobs: tuple[Access, ...]


@dataclass(frozen=True, slots=True)
class ChunkState:
    """A chunk under way. `resident`: blobs that stay in the cache while it is read, and where. `pending`: (layer,
    expert) not yet issued, in issue order; `flight`: issued, not yet read; `first_entry`: ring entries of the read
    before this chunk, `num_listed`: entries of this chunk listed so far."""

    start: int
    rows: int
    ring: Ring
    layout: PromptLayout
    resident: Residents
    is_streaming: bool
    layer: int = 0
    pending: tuple[tuple[int, int], ...] = ()
    flight: tuple[Batch, ...] = ()
    slot_of: dict[tuple[int, int], int] = field(default_factory=dict)
    num_listed: int = 0
    first_entry: int = 0
    block_runs: tuple[int, ...] = (0,)


def open_chunk(
    recipe: Recipe, layout: PromptLayout, resident: Residents, *, start: int, rows: int, ring: Ring, room: Room | None
) -> ChunkState:
    """A chunk of tokens [start, start + rows); `ring` has nothing in flight. `room`: whose slots go home when the chunk
    is read, None where another chunk may use them."""
    assert ring.num_issued == ring.num_consumed, ring
    inventory = recipe.plan.inventory
    is_streaming = rows >= STREAM_ALL_TOKENS
    layers = [layer for layer in range(inventory.num_layers) if is_streaming and recipe.is_moe(layer)]
    pairs = [(layer, expert) for layer in layers for expert in range(inventory.num_experts)]
    pairs = [pair for pair in pairs if pair not in resident]
    if room is not None:
        ring = ring.narrowing(num_kept=room.first_slot, num_entries=len(pairs))
    return _list(ChunkState(start, rows, ring, layout, resident, is_streaming, first_entry=ring.num_issued), pairs)


def _list(chunk: ChunkState, pairs: list[tuple[int, int]]) -> ChunkState:
    """Append `pairs` to the entries of this chunk; the slot of each is known from its place in the order."""
    first = chunk.first_entry + chunk.num_listed
    slot_of = dict(chunk.slot_of)
    slot_of.update({pair: chunk.ring.slot(first + i) for i, pair in enumerate(pairs)})
    return replace(
        chunk, pending=chunk.pending + tuple(pairs), slot_of=slot_of, num_listed=chunk.num_listed + len(pairs)
    )


def read_experts(
    recipe: Recipe, chunk: ChunkState, places: Addresses, wanted: tuple[int, ...]
) -> tuple[ChunkState, tuple[Upload, ...], tuple[Command, ...]]:
    """Everything between router and combine of `chunk.layer`, combine included, for the experts `wanted` (sorted)."""
    plan, layer, lane = recipe.plan, chunk.layer, prompt_lane(chunk.layout)
    if not chunk.is_streaming:
        chunk = _list(chunk, [(layer, expert) for expert in wanted if (layer, expert) not in chunk.resident])
    row = address_row(chunk.layout.addresses, plan, layer=layer)
    rows = [] if chunk.is_streaming else [address_rows(plan, chunk, places, wanted)]
    pairs = tuple(CopyPair(staged, Access(target, PROMPT)) for _, (staged, target) in rows)
    commands: list[Command] = [Copy(Stream.PROMPT, pairs)] if pairs else []
    if recipe.has_shared_expert(layer):
        commands.append(launch_shared_expert(recipe, lane, layer=layer, rows=chunk.rows))
    here = tuple(expert for expert in wanted if (layer, expert) in chunk.resident)
    if here:
        blobs = tuple(chunk.resident[layer, expert] for expert in here)
        commands.append(launch_placed_experts(lane, layer=layer, rows=chunk.rows, experts=here, row=row, blobs=blobs))
    while True:
        chunk, copies = run_ahead(plan, chunk)
        commands += copies
        if not chunk.flight or chunk.flight[0].layer != layer:
            break
        chunk, reads = _consume(lane, chunk, row)
        commands += reads
    assert not chunk.pending or chunk.pending[0][0] > layer, chunk
    commands.append(launch_combine(recipe, lane, layer=layer, rows=chunk.rows))
    return chunk, tuple(upload for upload, _ in rows), tuple(commands)


def address_rows(
    plan: Plan, chunk: ChunkState, places: Addresses, wanted: Iterable[int]
) -> tuple[Upload, tuple[HostExtent, Extent]]:
    """Where each blob lies when its group is launched, 0 for the others. A chunk that streams knows it of all layers
    before the first: a row that is copied later waits for the link behind blobs. Else of `wanted` of this layer."""
    num_experts, ring = plan.inventory.num_experts, chunk.layout.ring
    first, num_rows = (0, plan.inventory.num_layers) if chunk.is_streaming else (chunk.layer, 1)
    pairs = (*chunk.slot_of, *chunk.resident) if chunk.is_streaming else tuple((first, expert) for expert in wanted)
    words = [0] * (num_rows * num_experts)
    for layer, expert in pairs:
        blob = chunk.resident.get((layer, expert))
        extent = blob.extent if blob else ring[chunk.slot_of[layer, expert]]
        words[(layer - first) * num_experts + expert] = places.arena + extent.offset_bytes
    data, start_bytes = struct.pack(f"<{len(words)}q", *words), first * num_experts * INT64_BYTES
    staged = plan.staging.prompt_addresses.part(offset_bytes=start_bytes, size_bytes=len(data))
    return Upload(staged, data), (staged, chunk.layout.addresses.part(offset_bytes=start_bytes, size_bytes=len(data)))


def run_ahead(plan: Plan, chunk: ChunkState) -> tuple[ChunkState, list[Command]]:
    """Issue copy groups while the ring has room for the next whole group. A group never crosses a layer."""
    commands: list[Command] = []
    while chunk.pending:
        layer = chunk.pending[0][0]
        head = takewhile(lambda pair: pair[0] == layer, chunk.pending)  # noqa: B023  consumed on the next line
        experts = tuple(expert for _, expert in islice(head, chunk.ring.max_group_entries))
        if len(experts) > chunk.ring.num_free:
            break
        ring, group = issue_group(chunk.ring, num_entries=len(experts))
        blobs = tuple(
            _ring_access(plan, chunk.layout, layer, expert, slot)
            for expert, slot in zip(experts, group.slots, strict=True)
        )
        batch = Batch(layer, experts, group, blobs)
        chunk = replace(chunk, ring=ring, pending=chunk.pending[len(experts) :], flight=(*chunk.flight, batch))
        commands += [Wait(Stream.COPY, event) for event in group.waits]
        pairs = tuple(
            CopyPair(plan.pack.blobs[layer][expert], blob) for expert, blob in zip(experts, blobs, strict=True)
        )
        commands += [Copy(Stream.COPY, pairs), Record(Stream.COPY, group.copied_event)]
    return chunk, commands


def _consume(lane: Lane, chunk: ChunkState, row: Extent) -> tuple[ChunkState, list[Command]]:
    """What the layer has left is read by as few launches as the ring allows, all of about one size: the host takes as
    long to order a launch as the link for a dozen blobs."""
    batches = [batch for batch in chunk.flight if batch.layer == chunk.layer]
    num_pending = sum(1 for _ in takewhile(lambda pair: pair[0] == chunk.layer, chunk.pending))
    num_left = len(batches) + -(-num_pending // chunk.ring.max_group_entries)
    num_launches = -(-num_left // chunk.ring.max_read_groups)
    batches = batches[: -(-num_left // num_launches)]
    experts = tuple(expert for batch in batches for expert in batch.experts)
    blobs = tuple(blob for batch in batches for blob in batch.blobs)
    launch = launch_placed_experts(lane, layer=chunk.layer, rows=chunk.rows, experts=experts, row=row, blobs=blobs)
    ring = chunk.ring
    for batch in batches:
        ring = consume_group(ring, batch.group)
    return replace(chunk, ring=ring, flight=chunk.flight[len(batches) :]), [
        *(Wait(lane.stream, batch.group.copied_event) for batch in batches),
        launch,
        *(Record(lane.stream, batch.group.used_event) for batch in batches),
    ]


def _ring_access(plan: Plan, layout: PromptLayout, layer: int, expert: int, slot: int) -> Access:
    extent = layout.ring[slot].part(offset_bytes=0, size_bytes=plan.inventory.blob_bytes[layer])
    return Access(extent, PROMPT, blob_content(layer, expert))
