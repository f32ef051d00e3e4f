"""What several stages must hold alike, said over token ids and bytes: the session, what is parked, which checkpoints
there are, and what a prompt takes over of them (`lending.md` 5, invariants 38 to 42).

Of the engine's lists only ids, positions and places are asked for, of every stage; bytes are held against the ids.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sim.world.card import Card
from sim.world.checkpoints import cuts_of
from sim.world.errors import WorldFault
from sim.world.geometry import STATE_BYTES, Geometry
from sim.world.hashing import FIRST_CELL, chain, pack_ids
from sim.world.parked import GRID_BYTES, HALVES, MIN_PARKED_TOKENS, Ids, cells_of, shared_tokens, state_bytes, states_of
from strata.core.extent import HostExtent, HostSpace
from strata.core.serving.checkpoints import Checkpoint
from strata.core.serving.standing import Standing


@dataclass(frozen=True, slots=True)
class Due:
    """The prompt is read from `read_from` on; `is_lost`: so much of the session is overwritten that it is parked, if
    there is room; `is_resumed`: from a checkpoint."""

    read_from: int
    is_lost: bool
    is_resumed: bool


class Sessions:
    """`held`: what every stage surely holds; `is_torn`: some recurrent layers stand elsewhere."""

    def __init__(self, geometry: Geometry, cards: Sequence[Card]) -> None:
        self._geometry, self._cards = geometry, cards
        self.held: Ids = ()
        self.is_torn = False
        self.parking: Ids | None = None  # on its way to host memory since the request began
        self._wanted: tuple[int, ...] = ()

    @property
    def positions(self) -> tuple[int, ...]:
        """Of the checkpoints."""
        return tuple(each.position for each in self._checkpoints())

    def begin(self, prompt: Ids) -> Due:
        """All are at rest, and a request comes."""
        kept = 0 if self.is_torn else self._usable(self.held, prompt[:-1])
        shared = shared_tokens(self.held, prompt[:-1])
        resumed = max((position for position in self.positions if position <= shared), default=0)
        parked = self._parked()
        found = max((self._usable(ids, prompt[:-1]) for ids in parked), default=0)
        num_slots = self._geometry.num_checkpoints
        best = max(kept, resumed, found)
        read_from = 0 if self._geometry.is_reread and best > kept else best
        cuts = cuts_of(prompt[:-1])[-num_slots:] if num_slots and not self._geometry.can_rewind else []
        self._wanted = tuple(cut for cut in cuts if cut > read_from)
        usable = max(kept, resumed, 0 if self.is_torn else self._usable(self.held, prompt))
        is_held = any(self._usable(ids, self.held) == len(self.held) for ids in parked)
        is_lost = len(self.held) - usable >= MIN_PARKED_TOKENS and not self.is_torn and not is_held
        is_resumed = resumed > kept and found <= resumed and read_from > 0
        return Due(read_from, is_lost and found <= max(kept, resumed) and self._has_room(), is_resumed)

    def end(self, asked: Ids, *, is_whole: bool) -> None:
        """All are at rest. `asked`: ids of prompt and reply whose cells may hold; `is_whole`: all of them do. A client
        that leaves while the session before is being parked leaves that one."""
        before = self.held
        self._look()
        if is_whole and (self.is_torn or self.held != asked):
            raise WorldFault(f"the session has {len(self.held)} tokens of {len(asked)}, is_torn={self.is_torn}")
        if self.held not in (before, asked[: len(self.held)]):
            raise WorldFault(f"the session has {len(self.held)} tokens that nobody said")
        if self.parking is not None and self.parking not in self._parked():
            raise WorldFault(f"{len(self.parking)} tokens were parked, and are not listed")
        if is_whole and not set(self._wanted) <= set(self.positions):
            raise WorldFault(f"states were to be left at {self._wanted}, they are at {self.positions}")

    def lose(self) -> None:
        """All are at rest behind a failure, and assume nothing."""
        self._look()
        if self.held:
            raise WorldFault(f"a failure left a session of {len(self.held)} tokens")

    def _look(self) -> None:
        sessions = [at.session for at in self._standings()]
        if any(session != sessions[0] for session in sessions):
            raise WorldFault(f"stages stand at {[(len(each.ids), each.is_torn) for each in sessions]} tokens")
        self.held, self.is_torn = sessions[0].ids, sessions[0].is_torn

    def check_rest(self) -> None:
        """Every byte of the session, and of what is kept in host memory, is what its ids say, on every stage."""
        for card in self._cards:
            self._check_session(card)
        parked, checkpoints = self._parked(), self._checkpoints()
        if any(self._parked_of(at) != parked or at.checkpoints.listed != checkpoints for at in self._standings()):
            raise WorldFault("stages have other conversations parked, or other checkpoints, than the first one")
        ends = 0
        for place in sorted(parked.values()):
            if place.offset_bytes < ends or place.end_bytes > self._geometry.parked_bytes:
                raise WorldFault(f"{place} meets another conversation, or ends beyond the budget")
            ends = place.end_bytes
        for card in self._cards:
            part = card.geometry
            for ids, place in parked.items():
                right = cells_of(part, ids)
                self._compare(card, place.offset_bytes, right, f"{len(ids)} tokens parked")
            for each in checkpoints:
                right = states_of(part, self.held[: each.position])
                at_bytes = part.parked_bytes + each.slot_index * part.slot_bytes
                self._compare(card, at_bytes, right, f"the checkpoint at {each.position}")

    def _check_session(self, card: Card) -> None:
        """Cells on the card, and state that is not torn."""
        tokens, states = pack_ids(self.held), states_of(card.geometry, self.held) if self.held else b""
        for layer, (kv, state) in enumerate(zip(card.plan.kv, card.plan.state, strict=False)):
            right = chain(FIRST_CELL + card.geometry.first_layer + layer, tokens)
            found = card.payload.arena(kv)
            halves = (found[: len(right)], found[kv.size_bytes // HALVES :][: len(right)])
            if kv.size_bytes and [bytes(half) for half in halves] != [right, right]:
                raise WorldFault(f"cells of layer {layer} of {card.geometry.layers} are not those of the session")
            if state.size_bytes and self.held and not self.is_torn:
                if bytes(card.payload.arena(state)) != states[:STATE_BYTES]:
                    raise WorldFault(f"state of layer {layer} of {card.geometry.layers} is not that of the session")
                states = states[STATE_BYTES:]

    def _compare(self, card: Card, offset_bytes: int, right: bytes, what: str) -> None:
        found = bytes(card.payload.host(HostExtent(HostSpace.PARKED, offset_bytes, len(right))))
        if found != right:
            raise WorldFault(f"{what}: layers {card.geometry.layers} have other bytes there than the ids say")

    def _has_room(self) -> bool:
        sizes = [state_bytes(card.geometry, len(self.held)) + GRID_BYTES for card in self._cards]
        return max(sizes) <= self._geometry.parked_bytes

    def _standings(self) -> list[Standing]:
        return [card.runner._state.at for card in self._cards]

    def _parked(self) -> dict[Ids, HostExtent]:
        return self._parked_of(self._standings()[0])

    def _parked_of(self, at: Standing) -> dict[Ids, HostExtent]:
        return {parked.session.ids: parked.place for parked in at.parked.listed}

    def _checkpoints(self) -> tuple[Checkpoint, ...]:
        return self._standings()[0].checkpoints.listed

    def _usable(self, held: Ids, ids: Ids) -> int:
        shared = shared_tokens(held, ids)
        return shared if shared == len(held) or self._geometry.can_rewind else 0
