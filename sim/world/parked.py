"""What must hold of parked conversations in a world, said over token ids and bytes: which prefix a prompt takes over,
who is parked and who goes for it, and what lies in host memory. Of the engine's list only ids and places are asked for.
"""

from dataclasses import dataclass
from struct import Struct

from sim.world.card import Card
from sim.world.checks import WorldFault
from sim.world.drafted import DrafterWatch, hidden_row
from sim.world.geometry import STATE_BYTES, Geometry
from sim.world.hashing import FIRST_CELL, chain, last_cell, pack_ids
from strata.core.extent import HostExtent, HostSpace
from strata.core.serving.parking import Parking, Restoring
from strata.core.serving.states import State

MIN_PARKED_TOKENS = 64
HALVES = 2
CELL_BYTES = 4
GRID_BYTES = 256
STATE = Struct("<qI")
Ids = tuple[int, ...]
Places = dict[Ids, HostExtent]


@dataclass(frozen=True, slots=True)
class Expectation:
    """Of a request that is about to begin, while cells hold `held`. `kept` cells stay, the prompt is read from
    `read_from`; `found`: the parked conversation that wins over the live session, if one does; `places` of all;
    `resumed`: the position of the checkpoint that wins, or 0; `num_lost`: tokens of the session that would be lost;
    `is_torn`: recurrent state is anything; `num_sure`: cells that no layer lacks, those before what comes back."""

    held: Ids
    prompt: Ids
    places: Places
    found: Ids | None
    kept: int
    read_from: int
    resumed: int = 0
    num_lost: int = 0
    is_torn: bool = False
    num_sure: int = 0


class ParkedWatch:
    """`_order`: ids of what is parked, by when it was used last, from what was seen to happen."""

    def __init__(self, card: Card, drafter: DrafterWatch) -> None:
        self._card, self._drafter = card, drafter
        self._order: list[Ids] = []

    def expect(self, held: Ids, prompt: Ids, *, resumable: int = 0, is_torn: bool = False) -> Expectation:
        """`resumable`: the furthest checkpoint in what `held` and `prompt` share, or 0."""
        places, kept = self._places(), 0 if is_torn else self._read_from(held, prompt)
        usable = 0 if is_torn else self._usable(held, prompt)
        resumed = resumable if resumable > kept else 0
        found = max(reversed(self._order), key=lambda ids: self._read_from(ids, prompt), default=())
        read_from = self._read_from(found, prompt)
        if read_from <= max(kept, resumed):
            num_lost = len(held) - max(usable, resumed)
            kept = max(kept, resumed) if not (resumed and self._card.geometry.is_reread) else 0
            return Expectation(held, prompt, places, None, kept, kept, resumed, num_lost, is_torn)
        num_lost = len(held) - usable
        if self._card.geometry.is_reread:
            return Expectation(held, prompt, places, found, 0, 0, 0, num_lost, is_torn)
        num_sure = max(0, kept - 1) if self._card.geometry.kept_row_bytes else kept
        return Expectation(held, prompt, places, found, kept, read_from, 0, num_lost, is_torn, num_sure)

    def check_begun(self, expected: Expectation) -> None:
        """Is the live session parked if it is worth it and there is room, and did only those go who must, the least
        recently used first, and never the one that is needed?"""
        held, after = expected.held, self._places()
        is_parking = isinstance(self._card.runner._state, Parking)
        self._check_is_parking(expected, is_parking=is_parking)
        gone = [ids for ids in self._order if ids not in after]
        if not is_parking:
            if gone and gone != [expected.found]:  # which is not listed while it is on its way
                raise WorldFault(f"{_lengths(gone)} tokens went, and nobody was parked for it")
            return
        spare = self._spare(expected)
        if any(ids in after for ids in spare):
            raise WorldFault(f"of {_lengths(spare)} tokens too few are no part of the {len(held)} that are parked")
        order = [ids for ids in self._order if ids not in spare and ids != expected.found]
        evicted = [ids for ids in gone if ids not in spare]
        if evicted != order[: len(evicted)]:
            raise WorldFault(f"{_lengths(evicted)} tokens went, the least recently used are {_lengths(order)}")
        if evicted and self._has_gap([*after.values(), expected.places[evicted[-1]]], len(held)):
            raise WorldFault(f"{len(evicted[-1])} tokens went without need: {len(held)} had room beside them")
        self._order = [ids for ids in self._order if ids in after]

    def note_arrived(self, before: State, expected: Expectation) -> None:
        """What was awaited in `before` has come."""
        if isinstance(before, Parking):
            self._order.append(expected.held)
        elif isinstance(before, Restoring) and expected.found is not None:
            self._order.remove(expected.found)
            self._order.append(expected.found)

    def note_recovered(self) -> None:
        """What a failed request was to park, or to bring back, is gone."""
        places = self._places()
        self._order = [ids for ids in self._order if ids in places]

    def check_rest(self) -> None:
        """Nothing is open: the list is as it was used, every byte of it is what its ids say, and no two share one."""
        places, geometry = self._places(), self._card.geometry
        if list(places) != self._order:
            raise WorldFault(f"parked are {_lengths(places)} tokens, in order of use {_lengths(self._order)}")
        end_bytes = 0
        for place in sorted(places.values()):
            if place.offset_bytes < end_bytes:
                raise WorldFault(f"two parked conversations meet at {place}")
            end_bytes = place.end_bytes
        if end_bytes > geometry.parked_bytes:
            raise WorldFault(f"parked conversations end at {end_bytes}, the budget is {geometry.parked_bytes} B")
        for ids, place in places.items():
            whole = HostExtent(HostSpace.PARKED, place.offset_bytes, state_bytes(geometry, len(ids)))
            if bytes(self._card.payload.host(whole)) != cells_of(geometry, ids, self._drafter.parked(ids)):
                raise WorldFault(f"{len(ids)} tokens parked at {place} have other cells than their ids say")

    def _check_is_parking(self, expected: Expectation, *, is_parking: bool) -> None:
        held, budget_bytes = expected.held, self._card.geometry.parked_bytes
        is_lost = expected.num_lost >= MIN_PARKED_TOKENS and not expected.is_torn
        is_lost = is_lost and not any(self._holds(ids, held) for ids in expected.places)
        if is_parking and not is_lost:
            raise WorldFault(f"{len(held)} tokens are parked for nothing: prompt and parked ones hold them")
        has_room = state_bytes(self._card.geometry, len(held)) + GRID_BYTES <= budget_bytes
        if is_lost and has_room and not is_parking and expected.found is None:
            raise WorldFault(f"{len(held)} tokens would be lost, with {budget_bytes} B to park them in")

    def _spare(self, expected: Expectation) -> list[Ids]:
        """Copies that have little beyond the one that is made now, but for one that is needed."""
        return [
            ids
            for ids in self._order
            if len(ids) - self._usable(expected.held, ids) < MIN_PARKED_TOKENS and ids != expected.found
        ]

    def _has_gap(self, taken: list[HostExtent], num_tokens: int) -> bool:
        size_bytes = state_bytes(self._card.geometry, num_tokens) + GRID_BYTES
        starts = [0, *(place.end_bytes for place in taken)]
        ends = [*(place.offset_bytes for place in taken), self._card.geometry.parked_bytes]
        gaps = ((start, min(end for end in ends if end >= start)) for start in starts)
        return any(end - start >= size_bytes for start, end in gaps)

    def _places(self) -> Places:
        return {parked.session.ids: parked.place for parked in self._card.runner._state.at.parked.listed}

    def _read_from(self, held: Ids, prompt: Ids) -> int:
        """How many tokens of a prompt are not read where `held` is. Its last cell of a drafter is of a token that may
        be another one now, and so the token before that one is read again, if it can be."""
        geometry, usable = self._card.geometry, self._usable(held, prompt[:-1])
        return max(0, usable - 1) if geometry.drafts and geometry.can_rewind else usable

    def _usable(self, held: Ids, ids: Ids) -> int:
        """How many of `ids` need not be read where `held` is."""
        shared = shared_tokens(held, ids)
        return shared if shared == len(held) or self._card.geometry.can_rewind else 0

    def _holds(self, held: Ids, ids: Ids) -> bool:
        """Whatever goes on from `ids` could go on from `held`."""
        return self._usable(held, ids) == len(ids)


def state_bytes(geometry: Geometry, num_tokens: int) -> int:
    """Of a conversation of `num_tokens`, or of a part of one behind its first tokens."""
    return HALVES * CELL_BYTES * geometry.num_caches * num_tokens + geometry.state_bytes


def shared_tokens(left: Ids, right: Ids) -> int:
    most = min(len(left), len(right))
    return next((i for i in range(most) if left[i] != right[i]), most)


def _lengths(conversations: list[Ids] | Places) -> list[int]:
    return [len(ids) for ids in conversations]


def cells_of(geometry: Geometry, ids: Ids, drafter: bytes = b"") -> bytes:
    """K and V of each layer that attends, which are equal in this model, then those of a drafter, then the state of
    each that does not."""
    tokens, first = pack_ids(ids), FIRST_CELL + geometry.first_layer
    attending = [layer for layer in range(geometry.num_layers) if not geometry.is_recurrent(layer)]
    cells = b"".join(HALVES * chain(first + layer, tokens) for layer in attending)
    return cells + HALVES * drafter + states_of(geometry, ids)


def states_of(geometry: Geometry, ids: Ids) -> bytes:
    """Of each layer that does not attend, behind the last of `ids`, and of a drafter."""
    tokens, first = pack_ids(ids), FIRST_CELL + geometry.first_layer
    layers = b"".join(
        STATE.pack(len(ids), last_cell(chain(first + layer, tokens))).ljust(STATE_BYTES, b"\0")
        for layer in range(len(geometry.blob_bytes))
        if geometry.is_recurrent(layer)
    )
    return layers + hidden_row(geometry, ids)
