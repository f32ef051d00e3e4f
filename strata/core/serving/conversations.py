"""Conversations that had to leave the card: which ids each one holds, where its state lies in host memory, who goes
when there is no room, and what a new request takes over.

    live session    a b c d e f       on the card; cells 2.. are about to be overwritten
    parked          a b x y z         in host memory
    prompt          a b x y q r       read_from = 4: cells 0 and 1 stay, 2 and 3 come back

Where state cannot be rewound, a prompt that shares less than the whole session may go on from a checkpoint in it.

The space is one piece, taken at start. A parked conversation lies in it in one piece too and is complete by itself: it
refers to no other one, so nobody's going makes it useless. Least recently used goes first. Everything is decided here,
once, before anything is lent or copied; `parking.py` has the commands.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from strata.core.extent import HostExtent, HostSpace
from strata.core.inventory import StateKind
from strata.core.serving.checkpoints import Checkpoint, Checkpoints
from strata.core.serving.prefix import Session

Kinds = frozenset[StateKind]
COPIED_KINDS = frozenset({StateKind.KV, StateKind.PAIRS, StateKind.RECURRENT})
"""What `parking.py` copies. A model with another kind of state is never parked: a copy would not be complete."""

MIN_PARKED_TOKENS = 64
"""A session is parked for the sake of at least so many tokens beyond what it shares with the next one; fewer are read
again."""


@dataclass(frozen=True, slots=True)
class Parked:
    """A copy of the state of `session`, in `place`."""

    session: Session
    place: HostExtent


@dataclass(frozen=True, slots=True)
class ParkedCounts:
    """Since start. `num_hits`: requests whose longest prefix was a parked one; `num_lost`: conversations that were
    worth a place and got none."""

    num_hits: int = 0
    num_parked: int = 0
    num_restored: int = 0
    num_evicted: int = 0
    num_lost: int = 0


@dataclass(frozen=True, slots=True)
class ParkedConversations:
    """`listed`: least recently used first, in places that lie within `size_bytes` and do not meet."""

    size_bytes: int = 0
    listed: tuple[Parked, ...] = ()
    counts: ParkedCounts = ParkedCounts()

    def __post_init__(self) -> None:
        end_bytes = 0
        for parked in sorted(self.listed, key=lambda parked: parked.place):
            assert end_bytes <= parked.place.offset_bytes, self.listed
            end_bytes = parked.place.end_bytes
        assert end_bytes <= self.size_bytes, (end_bytes, self.size_bytes)

    @property
    def used_bytes(self) -> int:
        return sum(parked.place.size_bytes for parked in self.listed)

    def longest(self, prompt_ids: tuple[int, ...], kinds: Kinds) -> Parked | None:
        """The one that has most of the prompt; of equals, the one used last."""
        return max(reversed(self.listed), key=lambda parked: parked.session.read_from(prompt_ids, kinds), default=None)

    def without(self, parked: Parked) -> "ParkedConversations":
        return replace(self, listed=tuple(other for other in self.listed if other is not parked))

    def after_parking(self, parked: Parked) -> "ParkedConversations":
        """Its copy is complete. It is the one used last."""
        counts = replace(self.counts, num_parked=self.counts.num_parked + 1)
        return replace(self, listed=(*self.listed, parked), counts=counts)

    def after_restoring(self, parked: Parked) -> "ParkedConversations":
        """It is on the card again, and stays here as well."""
        counts = replace(self.counts, num_restored=self.counts.num_restored + 1)
        return replace(self, listed=(*self.listed, parked), counts=counts)


NOTHING_PARKED = ParkedConversations()


@dataclass(frozen=True, slots=True)
class Takeover:
    """What a request takes over. The first `kept` cells of the live session stay as they are; `park`: what the session
    becomes first; `restore`: where cells [kept, read_from) and state come from, or state alone. The prompt is read from
    `read_from` on."""

    kept: int
    read_from: int
    park: Parked | None = None
    restore: Parked | Checkpoint | None = None


def plan_takeover(
    session: Session,
    parked: ParkedConversations,
    prompt_ids: tuple[int, ...],
    checkpoints: Checkpoints,
    *,
    kinds: Kinds,
    size_of: Callable[[int], int],
    is_reread: bool,
) -> tuple[ParkedConversations, Takeover]:
    """The longest usable prefix wins; of equals the live session, then its checkpoints. `kinds`: what the model's state
    consists of; `size_of` gives its bytes for so many tokens; `is_reread`: a parked conversation or a checkpoint that
    wins is not restored, and the prompt is read from 0. Whoever has to go for the one that is parked is no longer
    listed; whoever is to be restored never has to."""
    kept = read_from = session.read_from(prompt_ids, kinds)
    restore: Parked | Checkpoint | None = None
    resumed, best = checkpoints.resume(session, prompt_ids), parked.longest(prompt_ids, kinds)
    if resumed is not None and resumed.position > kept:
        restore, read_from = resumed, resumed.position
    if best is not None and best.session.read_from(prompt_ids, kinds) > read_from:
        restore, read_from = best, best.session.read_from(prompt_ids, kinds)
    if isinstance(restore, Checkpoint):
        kept = restore.position
    after, park = parked, None
    num_usable = max(kept, session.usable(prompt_ids, kinds))
    if parked.size_bytes and _is_worth_parking(session, num_usable, parked.listed, kinds):
        after, park = _make_room(parked, session, kinds, size_bytes=size_of(len(session.ids)), needed=restore)
    if isinstance(restore, Parked):
        after = replace(after, counts=replace(after.counts, num_hits=after.counts.num_hits + 1))
    if is_reread and restore is not None:
        return after, Takeover(0, 0, park)
    return after, Takeover(kept, read_from, park, restore)


def _is_worth_parking(session: Session, num_usable: int, listed: Sequence[Parked], kinds: Kinds) -> bool:
    """Enough of it would be lost, a copy would be complete, and none holds it already."""
    if session.is_torn or not kinds <= COPIED_KINDS or len(session.ids) - num_usable < MIN_PARKED_TOKENS:
        return False
    return not any(parked.session.holds(session.ids, kinds) for parked in listed)


def _make_room(
    parked: ParkedConversations, session: Session, kinds: Kinds, *, size_bytes: int, needed: Parked | Checkpoint | None
) -> tuple[ParkedConversations, Parked | None]:
    """A place for `session`, and who is left. A copy that has little beyond `session`, as of an earlier turn, goes in
    any case; there is none, and nobody goes, where even an empty space with `needed` in it has no gap of that size."""
    left = [other for other in parked.listed if other is needed or not _is_spare(other, session, kinds)]
    victims = [other for other in left if other is not needed]
    num_evicted = 0
    while (offset_bytes := _first_gap(left, parked.size_bytes, size_bytes)) is None:
        if not victims:
            return replace(parked, counts=replace(parked.counts, num_lost=parked.counts.num_lost + 1)), None
        left.remove(victims.pop(0))
        num_evicted += 1
    counts = replace(parked.counts, num_evicted=parked.counts.num_evicted + num_evicted)
    place = HostExtent(HostSpace.PARKED, offset_bytes, size_bytes)
    return replace(parked, listed=tuple(left), counts=counts), Parked(session, place)


def _is_spare(other: Parked, session: Session, kinds: Kinds) -> bool:
    """Whether what only `other` has is not worth a copy."""
    ids = other.session.ids
    return len(ids) - session.usable(ids, kinds) < MIN_PARKED_TOKENS


def _first_gap(listed: Sequence[Parked], space_bytes: int, size_bytes: int) -> int | None:
    """Where the first gap of `size_bytes` begins, in a space of `space_bytes`."""
    start = 0
    for place in sorted(parked.place for parked in listed):
        if place.offset_bytes - start >= size_bytes:
            return start
        start = place.end_bytes
    return start if space_bytes - start >= size_bytes else None
