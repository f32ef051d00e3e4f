"""A conversation's way to host memory and back, and that of its state alone: states of the machine, the books, and the
commands of all.

    place    K of layer 0 | V of layer 0 | K of layer 3 | ... | state of layer 1 | ...      of its tokens, without gaps

All cells lie side by side in each piece, as on the card, so any run of tokens is one copy a piece. A recurrent layer
has one state instead, that behind the last token; so such a conversation comes back whole or not at all. A checkpoint
has the states alone, laid out as there. It is written on the prompt stream, between two chunks; all other ways are on
the verifier's, and whoever reads or writes K/V elsewhere does so after the notice behind them was taken (`lending.md`
4.1, commit, checkpoint, park; 5, invariants 41 and 42).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from strata.core.commands import Access, CopyPair, Stream
from strata.core.extent import HostExtent
from strata.core.inventory import StateKind
from strata.core.memory.planner import Plan
from strata.core.memory.shapes import kv_layout_of
from strata.core.serving.checkpoints import Checkpoint, checkpoint_place
from strata.core.serving.conversations import Parked, Takeover, plan_takeover
from strata.core.serving.masters import copy_groups
from strata.core.serving.prefix import Session, can_rewind
from strata.core.serving.request import GenerationRequest
from strata.core.serving.standing import Standing, notify
from strata.core.serving.steps import Orders
from strata.core.units import SLOT_ALIGNMENT_BYTES, align_up


@dataclass(frozen=True, slots=True)
class Parking:
    """The live session is on its way to host memory; it still holds."""

    at: Standing
    request: GenerationRequest
    takeover: Takeover

    def arrived(self) -> Standing:
        """The copy is complete."""
        assert self.takeover.park is not None
        return replace(self.at, parked=self.at.parked.after_parking(self.takeover.park))


@dataclass(frozen=True, slots=True)
class Restoring:
    """A parked conversation is on its way back, behind the cells that stay, or the state of a checkpoint. The first is
    not listed meanwhile and the second goes with its session, so a failure drops it. One stage of several is here too
    where nothing comes back, so that all of them have begun a request before one of them reads."""

    at: Standing
    request: GenerationRequest
    takeover: Takeover

    def arrived(self) -> Standing:
        """Cells and state are on the card again."""
        restored = self.takeover.restore
        session = Session(self.request.prompt_ids[: self.takeover.read_from])
        if isinstance(restored, Checkpoint):
            return replace(self.at, session=session, checkpoints=self.at.checkpoints.used(restored))
        if restored is None:
            return self.at
        return replace(self.at, session=session, parked=self.at.parked.after_restoring(restored))


def take_over(
    plan: Plan, stages: tuple[Plan, ...], at: Standing, request: GenerationRequest
) -> tuple[Standing, Takeover]:
    """Decide what the request takes over. Whoever has to go for the session that is parked goes now. All of `stages`
    decide alike: by every kind of state that one of them has, and with places that are large enough for each."""
    kinds = frozenset[StateKind]().union(*(stage.inventory.state_kinds for stage in stages))
    kinds |= {StateKind.PAIRS for stage in stages if stage.draft is not None}
    listed, takeover = plan_takeover(
        at.session,
        at.parked,
        request.prompt_ids,
        at.checkpoints,
        kinds=kinds,
        size_of=lambda num_tokens: max(parked_bytes(stage, num_tokens) for stage in stages),
        is_reread=plan.options.is_reread,
    )
    return at if listed is at.parked else replace(at, parked=listed), takeover


def parked_bytes(plan: Plan, num_tokens: int) -> int:
    """What the state of `num_tokens` tokens takes in host memory."""
    pieces = _pieces(plan, start=0, end=num_tokens)
    return align_up(sum(piece.card.extent.size_bytes for piece in pieces), SLOT_ALIGNMENT_BYTES)


def park(plan: Plan, at: Standing, request: GenerationRequest, takeover: Takeover) -> tuple[Parking, Orders]:
    """Card to host, every cell of the session."""
    assert takeover.park is not None
    sides = _sides(plan, takeover.park, start=0, end=len(takeover.park.session.ids))
    at, notice = notify(at, (Stream.VERIFIER,))
    copies = _copies(Stream.VERIFIER, (CopyPair(*pair) for pair in sides))
    return Parking(at, request, takeover), copies.then(notice)


def restore(plan: Plan, at: Standing, request: GenerationRequest, takeover: Takeover) -> tuple[Restoring, Orders]:
    """Host to card, the cells that the card does not hold already, and state. Where the live session is taken over to
    its end, the drafter's last cell in it is not sure (`drafting.py`)."""
    restored = takeover.restore
    sides: Iterable[tuple[Access, HostExtent]] = ()
    if isinstance(restored, Checkpoint):
        sides = _placed(_states(plan), checkpoint_place(plan, restored))
    elif restored is not None:
        is_sure = plan.draft is None or can_rewind(plan.inventory.state_kinds)
        sides = _sides(plan, restored, start=max(0, takeover.kept - (not is_sure)), end=takeover.read_from)
        at = replace(at, parked=at.parked.without(restored))
    at, notice = notify(at, (Stream.VERIFIER,))
    copies = _copies(Stream.VERIFIER, (CopyPair(host, card) for card, host in sides))
    return Restoring(at, request, takeover), copies.then(notice)


def save_state(plan: Plan, at: Standing, stream: Stream) -> tuple[Standing, Orders]:
    """Card to host, the state behind the session, on the stream that reads: behind what moved it there, ahead of what
    moves it on."""
    checkpoints, placed = at.checkpoints.place(len(at.session.ids))
    sides = _placed(_states(plan), checkpoint_place(plan, placed))
    return replace(at, checkpoints=checkpoints), _copies(stream, (CopyPair(*pair) for pair in sides))


@dataclass(frozen=True, slots=True)
class _Piece:
    """What `card` holds of some tokens lies `offset_bytes` into what a place has of the layer's K, V or state."""

    card: Access
    offset_bytes: int
    whole_bytes: int


def _sides(plan: Plan, conversation: Parked, *, start: int, end: int) -> Iterator[tuple[Access, HostExtent]]:
    """Where tokens [start, end) of each piece lie, on the card and in `place`."""
    num_tokens = len(conversation.session.ids)
    assert start < end <= num_tokens, (start, end, num_tokens)
    assert end == num_tokens or can_rewind(plan.inventory.state_kinds), (end, num_tokens)
    return _placed(_pieces(plan, start=start, end=end, num_tokens=num_tokens), conversation.place)


def _placed(pieces: Iterator[_Piece], place: HostExtent) -> Iterator[tuple[Access, HostExtent]]:
    """Each beside its part of `place`, in which they lie one behind the other."""
    base_bytes = 0
    for piece in pieces:
        size_bytes = piece.card.extent.size_bytes
        yield piece.card, place.part(offset_bytes=base_bytes + piece.offset_bytes, size_bytes=size_bytes)
        base_bytes += piece.whole_bytes


def _pieces(plan: Plan, *, start: int, end: int, num_tokens: int = 0) -> Iterator[_Piece]:
    """Of tokens [start, end) of `num_tokens`: K and V of each layer that attends, the drafter's included, and then the
    state of each that does not. The name goes with the bytes: what left the card as K of a layer comes back as that
    or not at all."""
    layout = kv_layout_of(plan.inventory, plan.options)
    for layer, whole in enumerate(plan.kv):
        if whole.size_bytes:
            keys, values = layout.cells(whole, start=start, end=end)
            key_bytes, value_bytes = layout.key_bytes, layout.value_bytes
            yield _Piece(Access(keys, "kv", f"k {layer}"), start * key_bytes, num_tokens * key_bytes)
            yield _Piece(Access(values, "kv", f"v {layer}"), start * value_bytes, num_tokens * value_bytes)
    yield from _states(plan)


def _states(plan: Plan) -> Iterator[_Piece]:
    for layer, whole in enumerate(plan.state):
        if whole.size_bytes:
            yield _Piece(Access(whole, "state", f"state {layer}"), 0, whole.size_bytes)


def _copies(stream: Stream, pairs: Iterable[CopyPair]) -> Orders:
    return Orders((), tuple(copy_groups(stream, pairs)))
