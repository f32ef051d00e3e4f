"""From an empty card to one that serves: every byte of the plan gets a segment, an owner and its first content.

Nothing is mapped after this. K/V and the buffers that a captured window reads before it ever wrote them start as zeros.
"""

import struct
from collections.abc import Iterator, Sequence

from strata.core.commands import Access, Command, Copy, CopyPair, Fill, Map, Notify, Stream, Transfer
from strata.core.extent import Extent
from strata.core.memory.planner import Plan
from strata.core.memory.residency import Residency
from strata.core.serving.chunk import Addresses
from strata.core.serving.inputs import copy_to_verifier
from strata.core.serving.masters import block_blobs, copy_groups, masters_of, pairs_home
from strata.core.serving.recurrent_state import clear_state
from strata.core.serving.steps import Orders, Upload
from strata.core.serving.table import blobs_home, publish_table, resident_blobs

READY = "ready"
FIRST_TABLE_VERSION = 1


def start_up(
    plan: Plan, places: Addresses, cache: Residency, *, segment_bytes: int, terminators: Sequence[int]
) -> Orders:
    """Commands that make the card ready for capture and for requests; `terminators` are the ids that end a reply.
    Awaits READY."""
    flags = bytearray(plan.inventory.vocab_size)
    for token_id in terminators:
        flags[token_id] = 1
    owned = (Transfer(region.extent, "", region.name) for region in plan.regions)
    commands = (*_map_arena(plan, segment_bytes), *owned, *_load(plan, cache))
    orders = Orders((Upload(plan.staging.terminators, bytes(flags)),), commands).then(_draft_addresses(plan, places))
    whole = orders.then(mend(plan, places, cache, version=FIRST_TABLE_VERSION))
    return whole.then(Orders((), (Notify(Stream.VERIFIER, READY),), (READY,)))


def mend(plan: Plan, places: Addresses, cache: Residency, *, version: int) -> Orders:
    """Give everything that a window may read before it was written a first content, K/V and state included, and publish
    the table anew: at start, and after a command failed, when nobody knows what it wrote. Every blob is at home, but
    for those that were moving."""
    moved = copy_groups(Stream.VERIFIER, blobs_home(plan, (cache.slots[index] for index in cache.moving)))
    orders = Orders((), (*moved, *_zero(plan), *first_verifier(plan)))
    if not plan.table.size_bytes:
        return orders
    upload, copy = publish_table(plan, places, resident_blobs(plan, cache.slots), version=version)
    return orders.then(Orders((upload,), (copy,)))


def _draft_addresses(plan: Plan, places: Addresses) -> Orders:
    """Where the drafter finds its experts: at home, for good, since it runs only while they are."""
    if plan.draft is None or not plan.block.size_bytes:
        return Orders()
    staged = plan.staging.draft_addresses
    words = [places.arena + blob.offset_bytes for blob in block_blobs(plan)]
    copy = Copy(Stream.VERIFIER, (CopyPair(staged, Access(plan.draft.draft.addresses, "draft")),))
    return Orders((Upload(staged, struct.pack(f"<{len(words)}q", *words)),), (copy,))


def first_verifier(plan: Plan) -> tuple[Command, ...]:
    """What a captured window reads of the verifier's buffers before it, or a request, ever wrote it. Staging keeps the
    terminators for good."""
    window = plan.verifier.window
    counters = (extent for extent in (window.counts, window.result, window.usage) if extent.size_bytes)
    zeros = (Fill(Stream.VERIFIER, Access(extent, "verifier"), 0) for extent in counters)
    return (copy_to_verifier((plan.staging.terminators, window.terminators)), *zeros)


def _map_arena(plan: Plan, segment_bytes: int) -> Iterator[Command]:
    assert plan.arena_bytes % segment_bytes == 0, (plan.arena_bytes, segment_bytes)
    for index in range(plan.arena_bytes // segment_bytes):
        yield Map(index, Extent(index * segment_bytes, segment_bytes))


def _load(plan: Plan, cache: Residency) -> Iterator[Command]:
    """Dense weights, resident blobs and the drafter's block, from the pack to their homes. What is lent from the start
    comes with its first restore."""
    zone_bytes = plan.zone.size_bytes if plan.zone else 0
    pairs: list[CopyPair] = []
    for region in plan.regions:
        start = max(region.extent.offset_bytes, zone_bytes)
        if start < region.extent.end_bytes:
            kept = Extent(start, region.extent.end_bytes - start)
            pairs += pairs_home(masters_of(plan, region.name), kept, owner=region.name)
    pairs += blobs_home(plan, cache.slots)
    return copy_groups(Stream.VERIFIER, pairs)


def _zero(plan: Plan) -> Iterator[Command]:
    for layer in plan.kv:
        if layer.size_bytes:
            yield Fill(Stream.VERIFIER, Access(layer, "kv"), 0)
    yield from clear_state(plan, Stream.VERIFIER)
