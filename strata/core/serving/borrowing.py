"""Lending to a read, and getting everything home: the commands of both ways.

    lend      table without the lent pairs -> (its notice) -> acts: open room, pass slots and segments on
    return    room slots whose last entry is read, while the last chunk still runs
    reclaim   acts: segments home, slots back -> copy slots and head -> back -> full table -> copy the block

The cleared table has been uploaded before the first byte changes hands, and the full one is uploaded behind the event
that says that every blob is home, so no window ever reads a slot that is lent (`lending.md` 5, invariants 2, 3 and 7).
The drafter's block comes last, since the first window does not draft: whoever drafts waits for the copy stream first.
Nothing was saved when bytes were lent: the pack has every weight, so the way home can be repeated until it succeeds.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain

from strata.core.commands import Access, Command, CopyPair, Digest, Record, Stream, Transfer, Wait
from strata.core.extent import HostExtent
from strata.core.lending.loan import CACHE, PROMPT, LoanPhase
from strata.core.lending.room import Room
from strata.core.lending.segments import Act, SegmentLoan, release, restore
from strata.core.memory.fixed import BLOCK
from strata.core.memory.planner import Plan
from strata.core.memory.staging import DIGEST_BYTES
from strata.core.serving.chunk import Addresses, ChunkState, Residents
from strata.core.serving.masters import copy_groups, masters_of, pairs_home
from strata.core.serving.standing import Standing
from strata.core.serving.startup import first_verifier
from strata.core.serving.steps import Check, Orders
from strata.core.serving.table import blobs_home, publish_table, resident_blobs

BACK = "back"
EARLY_SLOTS = 32
"""Room slots sent home at a layer that asks: on a card with blobs of 2.5 MiB, 1.7 ms of its link."""


def kept_blobs(plan: Plan, at: Standing) -> Residents:
    """Blobs that a read may still read from the cache."""
    num_lent = len(at.loan.slots) if at.loan else 0
    return resident_blobs(plan, at.cache.slots[: len(at.cache.slots) - num_lent])


def clear_lent(plan: Plan, places: Addresses, at: Standing) -> Orders:
    """The table without the lent pairs. Its notice is awaited before the slots change hands, and a transfer is the
    host's act: so whatever a prompt stream writes there comes after it."""
    upload, copy = publish_table(plan, places, kept_blobs(plan, at), version=at.table_version)
    return Orders((upload,), (copy,))


def lend(plan: Plan, at: Standing, *, takes_segments: bool) -> tuple[Standing, tuple[Act, ...]]:
    """What is reserved passes to the prompt path; the room first, so that the carve has it (`lending.md` 5, 18)."""
    slots: tuple[Transfer, ...] = ()
    if at.loan is not None:
        loan = at.loan.moved(LoanPhase.LENT)
        at, slots = replace(at, loan=loan), (loan.lend,)
    acts: tuple[Act, ...] = slots
    if takes_segments:
        assert plan.zone is not None and at.segments is None, at
        at = replace(at, segments=SegmentLoan(plan.zone))
        acts = release(plan.zone, slots)
    return at, acts if at.room is None else (at.room.open, *acts)


def return_read_slots(plan: Plan, at: Standing, chunk: ChunkState) -> tuple[Standing, tuple[Command, ...]]:
    """Send home the room slots that the ring, narrowed, will not use again: behind the last entry of the read, when
    the link has nothing to do until the chunk is through. Where each layer asks first, a few behind each."""
    room = at.room
    if room is None or chunk.pending or not chunk.ring.is_narrow:
        return at, ()
    in_flight = {slot for batch in chunk.flight for slot in batch.group.slots}
    through = room.dirty(chunk.ring.num_issued) - room.returned - in_flight
    slots = frozenset(sorted(through)[: len(through) if chunk.is_streaming else EARLY_SLOTS])
    events = dict.fromkeys(chunk.ring.readers[slot] for slot in sorted(slots))
    waits = (Wait(Stream.COPY, event) for event in events)
    home = copy_groups(Stream.COPY, _slots_home(plan, room, slots))
    return replace(at, room=room.returning(slots)), (*waits, *home)


def read_until(at: Standing, chunk: ChunkState) -> Standing:
    """The read ends here, so it is known which slots of the room it wrote."""
    return at if at.room is None else replace(at, room=replace(at.room, num_entries=chunk.ring.num_issued))


def bring_home(plan: Plan, places: Addresses, at: Standing) -> tuple[Standing, Orders, Orders]:
    """Everything that is lent, on its way home: right from every phase, and as often as needed. Both prompt streams
    are at rest but for copies home. A loan that was only reserved is withdrawn: no byte of it was touched. The second
    orders are what no window waits for: the drafter's block, and digests."""
    give_back: tuple[Transfer, ...] = ()
    first: list[CopyPair] = []
    orders = Orders()
    if at.loan is not None:
        loan = at.loan
        give_back = (loan.give_back,) if at.ledger.is_owner(PROMPT, loan.extent) else ()
        assert give_back or at.ledger.is_owner(CACHE, loan.extent), (loan, at.ledger)
        if loan.phase is not LoanPhase.RESERVED:
            first += blobs_home(plan, loan.slots)
        at = replace(at, loan=loan.moved(LoanPhase.RESTORING), table_version=at.table_version + 1)
        upload, publish = publish_table(plan, places, resident_blobs(plan, at.cache.slots), version=at.table_version)
        orders = Orders((upload,), (publish,))
    acts: tuple[Act, ...] = give_back
    if at.segments is not None:
        acts = restore(at.segments.zone, at.backing, at.ledger, give_back)
        first += _parts_home(plan, at, is_block=False)
        orders = orders.then(Orders((), first_verifier(plan)))
        at = replace(at, segments=at.segments.restoring())
    if first:
        copies = copy_groups(Stream.COPY, first)
        orders = Orders((), (*copies, Record(Stream.COPY, BACK), Wait(Stream.VERIFIER, BACK))).then(orders)
    last = [*_parts_home(plan, at, is_block=True), *_dirty_home(plan, at)]
    later = Orders((), tuple(copy_groups(Stream.COPY, last)))
    if plan.options.policy.is_verified:
        later = later.then(_verify(plan, (*first, *last, *_returned_home(plan, at))))
    at = at if at.room is None else replace(at, room=at.room.restoring())
    return at, replace(orders, acts=acts), later


def _verify(plan: Plan, pairs: Iterable[CopyPair]) -> Orders:
    """Digests of all that came home, behind the copies, for the host to hold against the pack."""
    commands: list[Command] = []
    checks = []
    for index, pair in enumerate(pairs):
        assert isinstance(pair.target, Access) and isinstance(pair.source, HostExtent), pair
        word = plan.staging.digests.part(offset_bytes=index * DIGEST_BYTES, size_bytes=DIGEST_BYTES)
        commands.append(Digest(Stream.COPY, pair.target, word))
        checks.append(Check(word, pair.source))
    return Orders((), tuple(commands), checks=tuple(checks))


def _parts_home(plan: Plan, at: Standing, *, is_block: bool) -> Iterator[CopyPair]:
    """Of the parts that were away, the block, or what the first window needs."""
    for part in at.segments.zone.parts if at.segments else ():
        if (part.name == BLOCK) == is_block:
            yield from pairs_home(masters_of(plan, part.name), part.extent, owner=part.name)


def _dirty_home(plan: Plan, at: Standing) -> Iterator[CopyPair]:
    """Dirty room slots that are not on their way yet; after a failure the whole block, since nobody knows."""
    if at.room is None or not at.ledger.is_owner(PROMPT, at.room.extent):
        return
    if at.is_broken:
        yield from pairs_home(masters_of(plan, BLOCK), at.room.extent, owner=PROMPT)
    else:
        yield from _slots_home(plan, at.room, at.room.dirty(at.room.num_entries) - at.room.returned)


def _returned_home(plan: Plan, at: Standing) -> Iterator[CopyPair]:
    """Room slots that went home while the read still ran."""
    if at.room is not None and not at.is_broken and at.ledger.is_owner(PROMPT, at.room.extent):
        yield from _slots_home(plan, at.room, at.room.returned)


def _slots_home(plan: Plan, room: Room, slots: frozenset[int]) -> Iterator[CopyPair]:
    """Slots that are neighbours in one piece: it is cut where an expert ends, and the host orders each cut."""
    masters = masters_of(plan, BLOCK)
    return chain.from_iterable(pairs_home(masters, run, owner=PROMPT) for run in room.runs(slots))
