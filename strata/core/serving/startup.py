"""From an empty card to one that serves: every byte of the plan gets a segment, an owner and its first content.

Nothing is mapped after this. K/V and the buffers that a captured window reads before it ever wrote them start as zeros.
"""

import struct
from collections.abc import Iterator, Sequence

from strata.core.commands import (
    MAX_COPY_GROUP,
    Access,
    Command,
    Copy,
    CopyPair,
    Fill,
    Map,
    Notify,
    Stream,
    TableVersion,
    Transfer,
)
from strata.core.extent import Extent
from strata.core.memory.planner import Plan
from strata.core.serving.chunk import Addresses
from strata.core.serving.launches import weight_content
from strata.core.serving.machine import TABLE_VERSION, resident_blobs
from strata.core.serving.steps import Orders, Upload

READY = "ready"


def start_up(plan: Plan, places: Addresses, *, segment_bytes: int, terminators: Sequence[int]) -> Orders:
    """Commands that make the card ready for capture and for requests; `terminators` are the ids that end a reply.
    Awaits READY."""
    uploads = tuple(_uploads(plan, places, terminators))
    commands = (
        *_map_arena(plan, segment_bytes),
        *(Transfer(region.extent, "", region.name) for region in plan.regions),
        *_load(plan),
        *_zero(plan),
        *_publish(plan),
        Notify(Stream.VERIFIER, READY),
    )
    return Orders(uploads, commands, (READY,))


def _map_arena(plan: Plan, segment_bytes: int) -> Iterator[Command]:
    assert plan.arena_bytes % segment_bytes == 0, (plan.arena_bytes, segment_bytes)
    for index in range(plan.arena_bytes // segment_bytes):
        yield Map(index, Extent(index * segment_bytes, segment_bytes))


def _load(plan: Plan) -> Iterator[Command]:
    """Dense weights and resident blobs, from the pack to their homes."""
    blobs = resident_blobs(plan)
    pairs = [
        CopyPair(plan.pack.weights[name], Access(extent, "weights", weight_content(name)))
        for name, extent in plan.weights.items()
    ]
    pairs += [CopyPair(plan.pack.blobs[layer][expert], blob) for (layer, expert), blob in blobs.items()]
    for first in range(0, len(pairs), MAX_COPY_GROUP):
        yield Copy(Stream.VERIFIER, tuple(pairs[first : first + MAX_COPY_GROUP]))


def _zero(plan: Plan) -> Iterator[Command]:
    for layer in plan.kv:
        yield Fill(Stream.VERIFIER, Access(layer, "kv"), 0)
    for extent in (plan.verifier.window.counts, plan.verifier.window.result):
        yield Fill(Stream.VERIFIER, Access(extent, "verifier"), 0)


def _publish(plan: Plan) -> Iterator[Command]:
    terminators = Access(plan.verifier.window.terminators, "verifier")
    yield Copy(Stream.VERIFIER, (CopyPair(plan.staging.terminators, terminators),))
    if plan.table.size_bytes:
        version = TableVersion(TABLE_VERSION, tuple(resident_blobs(plan).values()))
        yield Copy(Stream.VERIFIER, (CopyPair(plan.staging.table, Access(plan.table, "table")),), version)


def _uploads(plan: Plan, places: Addresses, terminators: Sequence[int]) -> Iterator[Upload]:
    flags = bytearray(plan.inventory.vocab_size)
    for token_id in terminators:
        flags[token_id] = 1
    yield Upload(plan.staging.terminators, bytes(flags))
    if plan.table.size_bytes:
        yield Upload(plan.staging.table, pack_table(plan, places))


def pack_table(plan: Plan, places: Addresses) -> bytes:
    """The address table: a resident blob's slot, any other blob's place in the pack, 0 in rows of dense layers."""
    blobs = resident_blobs(plan)
    words: list[int] = []
    for layer, row in enumerate(plan.pack.blobs):
        if not row:
            words += [0] * plan.inventory.num_experts
        for expert, home in enumerate(row):
            slot = blobs.get((layer, expert))
            words.append(places.arena + slot.extent.offset_bytes if slot else places.pack + home.offset_bytes)
    return struct.pack(f"<{len(words)}q", *words)
