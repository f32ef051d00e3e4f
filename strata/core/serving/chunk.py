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
from itertools import takewhile

from strata.core.commands import Access, Command, Copy, CopyPair, Record, Stream, Wait
from strata.core.extent import Extent, HostExtent
from strata.core.lending.loan import PROMPT
from strata.core.lending.room import Room
from strata.core.memory.layout import INT64_BYTES, PromptLayout
from strata.core.memory.planner import Plan
from strata.core.memory.ring import Ring, RingGroup, consume_groups, issue_group
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
    expert) not yet issued, in issue order; `flight`: issued, not yet read; `slot_of`: the ring slots of those
    listed last."""

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
    return _list(ChunkState(start, rows, ring, layout, resident, is_streaming), pairs)


def _list(chunk: ChunkState, pairs: list[tuple[int, int]]) -> ChunkState:
    """`pairs` come next, and all entries before are read; the slot of each is known from its place in the order."""
    assert not chunk.pending and not chunk.flight, chunk
    slot_of = {pair: chunk.ring.slot(entry) for entry, pair in enumerate(pairs, chunk.ring.num_issued)}
    return replace(chunk, pending=tuple(pairs), slot_of=slot_of)


def read_experts(
    recipe: Recipe, chunk: ChunkState, places: Addresses, wanted: tuple[int, ...]
) -> tuple[ChunkState, tuple[Upload, ...], tuple[Command, ...]]:
    """Everything between router and combine of `chunk.layer`, combine included, for the experts `wanted` (sorted). The
    chunk is at the next layer then."""
    plan, layer, lane = recipe.plan, chunk.layer, prompt_lane(chunk.layout)
    row = address_row(chunk.layout.addresses, plan, layer=layer)
    uploads: tuple[Upload, ...] = ()
    commands: list[Command] = []
    if not chunk.is_streaming:
        chunk = _list(chunk, [(layer, expert) for expert in wanted if (layer, expert) not in chunk.resident])
        upload, (staged, target) = address_rows(plan, chunk, places, wanted)
        uploads, commands = (upload,), [Copy(Stream.PROMPT, (CopyPair(staged, Access(target, PROMPT)),))]
    if recipe.has_shared_expert(layer):
        commands.append(launch_shared_expert(recipe, lane, layer=layer, rows=chunk.rows))
    here = tuple(expert for expert in wanted if (layer, expert) in chunk.resident)
    if here:
        blobs = tuple(chunk.resident[layer, expert] for expert in here)
        commands.append(launch_placed_experts(lane, layer=layer, rows=chunk.rows, experts=here, row=row, blobs=blobs))
    chunk, copies = run_ahead(plan, chunk)
    while chunk.flight and chunk.flight[0].layer == layer:
        num_read, reads = _read(lane, chunk, row)
        commands += copies + reads
        chunk, copies = run_ahead(plan, chunk, num_read=num_read)
    commands += copies
    assert not chunk.pending or chunk.pending[0][0] > layer, chunk
    commands.append(launch_combine(recipe, lane, layer=layer, rows=chunk.rows))
    return replace(chunk, layer=layer + 1), uploads, tuple(commands)


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


def run_ahead(plan: Plan, chunk: ChunkState, *, num_read: int = 0) -> tuple[ChunkState, list[Command]]:
    """Issue copy groups while the ring has room for the next whole group, now that the reader of the first `num_read`
    in flight is ordered. A group never crosses a layer."""
    commands: list[Command] = []
    pending, flight, num_taken = chunk.pending, list(chunk.flight[num_read:]), 0
    ring = consume_groups(chunk.ring, [batch.group for batch in chunk.flight[:num_read]]) if num_read else chunk.ring
    sizes = plan.inventory.blob_bytes
    while num_taken < len(pending):
        layer = pending[num_taken][0]
        head = pending[num_taken : num_taken + ring.max_group_entries]
        experts = tuple(expert for of_layer, expert in head if of_layer == layer)
        if len(experts) > ring.num_free:
            break
        ring, group = issue_group(ring, num_entries=len(experts))
        names = (blob_content(layer, expert) for expert in experts)
        slots = (chunk.layout.ring[slot].part(offset_bytes=0, size_bytes=sizes[layer]) for slot in group.slots)
        blobs = tuple(Access(slot, PROMPT, name) for slot, name in zip(slots, names, strict=True))
        flight.append(Batch(layer, experts, group, blobs))
        num_taken += len(experts)
        commands += [Wait(Stream.COPY, event) for event in group.waits]
        homes = (plan.pack.blobs[layer][expert] for expert in experts)
        pairs = tuple(CopyPair(home, blob) for home, blob in zip(homes, blobs, strict=True))
        commands += [Copy(Stream.COPY, pairs), Record(Stream.COPY, group.copied_event)]
    if num_taken or num_read:
        chunk = replace(chunk, ring=ring, pending=pending[num_taken:], flight=tuple(flight))
    return chunk, commands


def _read(lane: Lane, chunk: ChunkState, row: Extent) -> tuple[int, list[Command]]:
    """The next launch, and how many groups it reads. What the layer has left is read by as few launches as the ring
    allows, all of about one size: the host takes as long to order a launch as the link for a dozen blobs."""
    batches = [batch for batch in chunk.flight if batch.layer == chunk.layer]
    num_pending = sum(1 for _ in takewhile(lambda pair: pair[0] == chunk.layer, chunk.pending))
    num_left = len(batches) + -(-num_pending // chunk.ring.max_group_entries)
    num_launches = -(-num_left // chunk.ring.max_read_groups)
    batches = batches[: -(-num_left // num_launches)]
    experts = tuple(expert for batch in batches for expert in batch.experts)
    blobs = tuple(blob for batch in batches for blob in batch.blobs)
    launch = launch_placed_experts(lane, layer=chunk.layer, rows=chunk.rows, experts=experts, row=row, blobs=blobs)
    return len(batches), [
        *(Wait(lane.stream, batch.group.copied_event) for batch in batches),
        launch,
        *(Record(lane.stream, batch.group.used_event) for batch in batches),
    ]
