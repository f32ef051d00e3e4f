"""Lending cache slots to a read, and getting their blobs back: the commands of both ways.

    lend     table without the lent pairs -> (its notice) -> transfer cache -> prompt
    reclaim  transfer prompt -> cache -> copy each blob from the pack -> back -> full table

The cleared table has been uploaded before the first byte changes hands, and the full one is uploaded behind the event
that says that every blob is home, so no window ever reads a slot that is lent (`lending.md` 5, invariants 2, 3 and 7).
Both prompt streams are at rest at either transfer.
"""

from collections.abc import Iterator

from strata.core.commands import MAX_COPY_GROUP, Command, Copy, CopyPair, Record, Stream, Wait
from strata.core.lending.ledger import Ledger
from strata.core.lending.loan import CACHE, PROMPT, Loan, LoanPhase
from strata.core.memory.planner import Plan
from strata.core.serving.chunk import Addresses, Residents
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


def refill(plan: Plan, places: Addresses, loan: Loan, ledger: Ledger, *, version: int) -> Orders:
    """Take the bytes back where they were given, copy the same blobs into the same slots, then publish them. Right
    from every phase, and as often as needed: what the pack says is the only source. A loan that was only reserved is
    withdrawn: no byte of it was touched, so there is nothing to copy."""
    transfers = (loan.give_back,) if ledger.is_owner(PROMPT, loan.extent) else ()
    assert transfers or ledger.is_owner(CACHE, loan.extent), (loan, ledger)
    upload, publish = publish_table(plan, places, resident_blobs(plan), version=version)
    home: tuple[Command, ...] = ()
    if loan.phase is not LoanPhase.RESERVED:
        home = (*_copies_home(plan, loan), Record(Stream.COPY, BACK), Wait(Stream.VERIFIER, BACK))
    return Orders((upload,), (*home, publish), transfers=transfers)


def _copies_home(plan: Plan, loan: Loan) -> Iterator[Command]:
    blobs = resident_blobs(plan)
    pairs = [CopyPair(plan.pack.blobs[slot.layer][slot.expert], blobs[slot.layer, slot.expert]) for slot in loan.slots]
    for first in range(0, len(pairs), MAX_COPY_GROUP):
        yield Copy(Stream.COPY, tuple(pairs[first : first + MAX_COPY_GROUP]))
