"""How a request is read, as far as the machine's states say it: what it takes over, in which geometry, what is lent."""

from dataclasses import replace

from strata.core.memory.planner import Plan
from strata.core.serving.checkpoints import Checkpoint
from strata.core.serving.parking import Parking, Restoring
from strata.core.serving.states import Lending, Reading, ShortReading, State
from strata.engine.updates import ReadFacts


def with_takeover(read: ReadFacts, state: State) -> ReadFacts:
    """What the request that has just begun takes over."""
    if not isinstance(state, Parking | Restoring):
        return replace(read, read_from=len(state.at.session.ids))
    takeover = state.takeover
    read = replace(read, read_from=takeover.read_from)
    if isinstance(takeover.restore, Checkpoint):
        return replace(read, checkpoint_tokens=takeover.restore.position)
    return replace(read, unparked_tokens=takeover.read_from - takeover.kept if takeover.restore else 0)


def with_geometry(read: ReadFacts, state: State, plan: Plan) -> ReadFacts:
    """How the request is read, once that is decided."""
    if isinstance(state, ShortReading) and not read.window_rows:
        return replace(read, window_rows=plan.verifier.max_rows)
    if read.chunk_tokens or not isinstance(state, Lending | Reading):
        return read
    loan = state.at.loan
    has_segments = state.at.segments is not None or (isinstance(state, Lending) and state.takes_segments)
    layout = state.layout if isinstance(state, Lending) else state.chunk.layout
    return replace(
        read,
        chunk_tokens=layout.chunk_tokens,
        ring_slots=len(layout.ring),
        lent_slots=len(loan.slots) if loan else 0,
        lent_bytes=loan.extent.size_bytes if loan else 0,
        slab_bytes=layout.slab_bytes,
        room_slots=len(state.at.room.slots) if state.at.room else 0,
        moved_segments=plan.zone.num_segments if plan.zone and has_segments else 0,
    )
