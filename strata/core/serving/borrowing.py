"""Lending to a read, and getting everything home: the commands of both ways.

    lend      table without the lent pairs -> (its notice) -> acts: open room, pass slots and segments on
    return    room slots whose last entry is read, while the last chunk still runs
    reclaim   acts: segments home, slots back -> copy slots and head -> back -> full table -> copy the block

The cleared table has been uploaded before the first byte changes hands, and the full one is uploaded behind the event
that says that every blob is home, so no window ever reads a slot that is lent (`lending.md` 5, invariants 2, 3 and 7).
The drafter's block comes last, since the first window does not draft: whoever drafts waits for the copy stream first.
Nothing was saved when bytes were lent: the pack has every weight, so the way home can be repeated until it succeeds.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from strata.core.commands import Command, CopyPair, Record, Stream, Transfer, Wait
from strata.core.lending.loan import CACHE, PROMPT, Loan, LoanPhase
from strata.core.lending.room import BLOCK, Room
from strata.core.lending.segments import Act, SegmentLoan, release, restore
from strata.core.memory.planner import Plan
from strata.core.serving.chunk import Addresses, ChunkState, Residents
from strata.core.serving.masters import copy_groups, masters_of, pairs_home
from strata.core.serving.standing import Standing
from strata.core.serving.startup import first_verifier
from strata.core.serving.steps import Orders
from strata.core.serving.table import publish_table, resident_blobs

BACK = "back"


def kept_blobs(plan: Plan, loan: Loan | None) -> Residents:
    """Blobs that a read may still read from the cache."""
    if loan is None:
        return resident_blobs(plan)
    lent = {(slot.layer, slot.expert) for slot in loan.slots}
    return {pair: access for pair, access in resident_blobs(plan).items() if pair not in lent}


def clear_lent(plan: Plan, places: Addresses, loan: Loan, *, version: int) -> Orders:
    """The table without the lent pairs. Its notice is awaited before the slots change hands, and a transfer is the
    host's act: so whatever a prompt stream writes there comes after it."""
    upload, copy = publish_table(plan, places, kept_blobs(plan, loan), version=version)
    return Orders((upload,), (copy,))


def lend(plan: Plan, at: Standing, *, takes_segments: bool) -> tuple[Standing, tuple[Act, ...]]:
    """What is reserved passes to the prompt path; the room first, so that the carve has it (`lending.md` 5, 18)."""
    acts: tuple[Act, ...] = ()
    if at.loan is not None:
        at = replace(at, loan=at.loan.moved(LoanPhase.LENT))
        acts = (at.loan.lend,) if at.loan else ()
    if takes_segments:
        assert plan.zone is not None and at.segments is None, at
        at = replace(at, segments=SegmentLoan(plan.zone))
        acts = release(plan.zone, tuple(act for act in acts if isinstance(act, Transfer)))
    return at, acts if at.room is None else (at.room.open, *acts)


def return_read_slots(plan: Plan, room: Room, chunk: ChunkState) -> tuple[Room, tuple[Command, ...]]:
    """Send home the room slots that no entry of the read will use again; `chunk` is its last one."""
    if chunk.pending or not (chunk.is_streaming or chunk.layer >= plan.inventory.last_moe_layer):
        return room, ()
    in_flight = {slot for batch in chunk.flight for slot in batch.group.slots}
    slots = room.dirty(chunk.ring.num_issued) - room.returned - in_flight
    events = dict.fromkeys(chunk.ring.readers[slot] for slot in sorted(slots))
    waits = (Wait(Stream.COPY, event) for event in events)
    return room.returning(slots), (*waits, *_slots_home(plan, room, slots))


def bring_home(plan: Plan, places: Addresses, at: Standing) -> tuple[Standing, Orders]:
    """Everything that is lent, on its way home: right from every phase, and as often as needed. Both prompt streams
    are at rest but for copies home. A loan that was only reserved is withdrawn: no byte of it was touched."""
    give_back: tuple[Transfer, ...] = ()
    first: tuple[Command, ...] = ()
    orders = Orders()
    if at.loan is not None:
        loan = at.loan
        give_back = (loan.give_back,) if at.ledger.is_owner(PROMPT, loan.extent) else ()
        assert give_back or at.ledger.is_owner(CACHE, loan.extent), (loan, at.ledger)
        if loan.phase is not LoanPhase.RESERVED:
            first = tuple(copy_groups(Stream.COPY, _blobs_home(plan, loan)))
        at = replace(at, loan=loan.moved(LoanPhase.RESTORING), table_version=at.table_version + 1)
        upload, publish = publish_table(plan, places, resident_blobs(plan), version=at.table_version)
        orders = Orders((upload,), (publish,))
    acts: tuple[Act, ...] = give_back
    if at.segments is not None:
        acts = restore(at.segments.zone, at.backing, at.ledger, give_back)
        first += tuple(copy_groups(Stream.COPY, _parts_home(plan, at.segments)))
        orders = orders.then(Orders((), first_verifier(plan)))
        at = replace(at, segments=at.segments.restoring())
    if first:
        orders = Orders((), (*first, Record(Stream.COPY, BACK), Wait(Stream.VERIFIER, BACK))).then(orders)
    last = tuple(_block_home(plan, at))
    at = at if at.room is None else replace(at, room=at.room.restoring())
    return at, replace(orders.then(Orders((), last)), acts=acts)


def _blobs_home(plan: Plan, loan: Loan) -> Iterator[CopyPair]:
    blobs = resident_blobs(plan)
    for slot in loan.slots:
        yield CopyPair(plan.pack.blobs[slot.layer][slot.expert], blobs[slot.layer, slot.expert])


def _parts_home(plan: Plan, segments: SegmentLoan) -> Iterator[CopyPair]:
    """What the first window needs of the parts that were away."""
    for part in segments.zone.parts:
        if part.name != BLOCK:
            yield from pairs_home(masters_of(plan, part.name), part.extent, owner=part.name)


def _block_home(plan: Plan, at: Standing) -> Iterator[Command]:
    """Dirty room slots that are not on their way yet; after a failure the whole block, since nobody knows."""
    if at.segments is not None:
        parts = [part.extent for part in at.segments.zone.parts if part.name == BLOCK]
        away = (pairs_home(masters_of(plan, BLOCK), part, owner=BLOCK) for part in parts)
        yield from copy_groups(Stream.COPY, chain.from_iterable(away))
    if at.room is not None and at.ledger.is_owner(PROMPT, at.room.extent):
        if at.is_broken:
            yield from copy_groups(Stream.COPY, pairs_home(masters_of(plan, BLOCK), at.room.extent, owner=PROMPT))
        else:
            yield from _slots_home(plan, at.room, at.room.dirty(at.room.num_entries) - at.room.returned)


def _slots_home(plan: Plan, room: Room, slots: frozenset[int]) -> Iterator[Command]:
    masters = masters_of(plan, BLOCK)
    pairs = (pairs_home(masters, room.slot(slot), owner=PROMPT) for slot in sorted(slots))
    return copy_groups(Stream.COPY, chain.from_iterable(pairs))
