"""Which streams must be awaited before the next thing may happen, and what is over once they are."""

from dataclasses import replace

from strata.core.commands import Stream
from strata.core.lending.loan import PROMPT
from strata.core.lending.room import Room
from strata.core.lending.segments import Act
from strata.core.memory.planner import Plan
from strata.core.serving.prefix import NO_SESSION
from strata.core.serving.standing import Standing

PROMPT_STREAMS = (Stream.PROMPT, Stream.COPY)


def settled(at: Standing) -> tuple[Standing, tuple[Act, ...]]:
    """What was awaited behind a way home has been reached: whatever loan there was is over, and the room closes."""
    if at.loan is not None:
        at.loan.check_settled(at.ledger)
    if at.segments is not None:
        at.segments.check_settled(at.backing)
    acts = (at.room.close,) if at.room is not None and at.ledger.is_owner(PROMPT, at.room.extent) else ()
    return replace(at, loan=None, room=None, segments=None) if at.is_lending else at, acts


def broken(plan: Plan, at: Standing) -> Standing:
    """A command failed. The room that is out by the books may be, whatever was ordered: an act may have been refused.
    What was landing in the cache may not be there, and the card counts reads from 0."""
    is_out = plan.room and at.ledger.is_owner(PROMPT, plan.block)
    room = Room(plan.block, plan.room, first_slot=0) if is_out else None
    cache = replace(at.cache, num_windows=0, moving=at.cache.moving + at.cache.landing, landing=())
    return replace(at, session=NO_SESSION, is_broken=True, checks=(), room=room, cache=cache)


def closing_streams(at: Standing) -> tuple[Stream, ...]:
    """A whole read has waited for each of its ring copies. With a room, what is still on the copy stream are copies
    home, for which the first window need not wait."""
    return PROMPT_STREAMS if at.room is None else (Stream.PROMPT,)


def window_streams(at: Standing) -> tuple[Stream, ...]:
    """Behind which everything is home, the drafter's block and swapped blobs too."""
    return (Stream.VERIFIER, Stream.COPY) if at.is_lending or at.cache.landing else (Stream.VERIFIER,)
