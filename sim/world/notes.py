"""What happened in a world that a campaign wants to have seen: names and counts, for `Driver.sometimes`.

Judges nothing, so it may look at the machine's own state.
"""

from collections import Counter
from collections.abc import Sequence

from sim.world.card import Card
from sim.world.checks import is_out
from sim.world.loans import CACHE, ROOM_CLOSES, ROOM_OPENS, comes, goes
from strata.core.commands import MAX_COPY_GROUP
from strata.core.lending.loan import LoanPhase
from strata.core.serving.states import Idle, Reading, ShortReading, State, Windowing

Notes = Counter[str]


def name_of(state: State) -> str:
    """And the phase of its loan."""
    name = type(state).__name__
    return name if state.at.loan is None else f"{name} {state.at.loan.phase}"


def note_state(notes: Notes, before: State, state: State) -> None:
    """Of the chunk under way, of a refill, and of a swap that was under way when a reply ended (after a failure the
    session is empty)."""
    is_over = isinstance(state, Idle) and bool(state.at.session.ids)
    notes["reply ended beside a swap"] += bool(before.at.cache.moving) and is_over
    notes["read by windows"] += isinstance(state, ShortReading)
    notes["blobs exchanged"] += bool(state.at.cache.moving)
    if isinstance(state, Reading):
        chunk = state.chunk
        notes["streaming chunk" if chunk.is_streaming else "routed chunk"] += 1
        is_second = isinstance(before, Reading) and chunk.start > before.chunk.start
        notes["second chunk on a loan"] += is_second and state.at.loan is not None
        notes["ring went round"] += chunk.ring.num_issued > chunk.ring.num_slots
    if state.at.loan is not None and state.at.loan.phase is LoanPhase.RESTORING:
        notes["more than one copy group refilled"] += len(state.at.loan.slots) > MAX_COPY_GROUP


def note_loans(notes: Notes, card: Card, words: Sequence[str]) -> None:
    """`words`: the acts of the move that is over."""
    journal, lent, state = card.device.journal, card.lent, card.runner._state
    if words:
        notes.update(words)
        notes["loan opened"] += goes(CACHE) in words
    notes["blobs staged"] += card.runner.snapshot().counts.staged_reads > 0
    has_worked = card.geometry.has_work and journal.has_worked
    notes["slab of a loan"] += has_worked and card.geometry.has_slab
    notes["scratch in its region"] += has_worked and not card.geometry.has_slab
    if state.at.room is not None:
        are_out = [
            opened in journal.words and closed not in journal.words
            for opened, closed in ((ROOM_OPENS, ROOM_CLOSES), (goes(CACHE), comes(CACHE)))
        ]
        notes["room, slots and segments out at once"] += all(are_out) and is_out(card)
        written = {extent.offset_bytes for extent in journal.entries if lent.block.contains(extent)}
        notes["more than one group of room slots written"] += len(written) > MAX_COPY_GROUP
        notes["room in a read that streams"] += isinstance(state, Reading) and state.chunk.is_streaming
        notes["room slot home before the read ends"] += isinstance(state, Reading) and bool(journal.homes)
        notes["block restored behind the first window"] += isinstance(state, Windowing) and bool(journal.homes)
