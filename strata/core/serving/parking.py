"""A conversation's way to host memory and back: states of the machine, the books, and the commands of both.

    place    K of layer 0 | V of layer 0 | K of layer 3 | ... | state of layer 1 | ...      of its tokens, without gaps

All cells lie side by side in each piece, as on the card, so any run of tokens is one copy a piece. A recurrent layer
has one state instead, that behind the last token; so such a conversation comes back whole or not at all. Both ways go
on the verifier's stream; whoever reads or writes K/V elsewhere does so after the notice behind them was taken
(`lending.md` 4.1, commit, checkpoint, park; 5, invariant 41).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from strata.core.commands import MAX_COPY_GROUP, Access, Copy, CopyPair, Stream
from strata.core.extent import HostExtent
from strata.core.kv import kv_layout
from strata.core.memory.planner import Plan
from strata.core.serving.conversations import Parked, Takeover, plan_takeover
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
    """A parked conversation is on its way back, behind the cells that stay. It is not listed meanwhile, so a failure
    drops it."""

    at: Standing
    request: GenerationRequest
    takeover: Takeover

    def arrived(self) -> Standing:
        """The cells are on the card again."""
        assert self.takeover.restore is not None
        session = Session(self.request.prompt_ids[: self.takeover.read_from])
        return replace(self.at, session=session, parked=self.at.parked.after_restoring(self.takeover.restore))


def take_over(plan: Plan, at: Standing, request: GenerationRequest) -> tuple[Standing, Takeover]:
    """Decide what the request takes over. Whoever has to go for the session that is parked goes now."""
    listed, takeover = plan_takeover(
        at.session,
        at.parked,
        request.prompt_ids,
        kinds=plan.inventory.state_kinds,
        size_of=lambda num_tokens: parked_bytes(plan, num_tokens),
        is_reread=plan.options.is_reread,
    )
    return replace(at, parked=listed), takeover


def parked_bytes(plan: Plan, num_tokens: int) -> int:
    """What the state of `num_tokens` tokens takes in host memory."""
    pieces = _pieces(plan, start=0, end=num_tokens)
    return align_up(sum(piece.card.extent.size_bytes for piece in pieces), SLOT_ALIGNMENT_BYTES)


def park(plan: Plan, at: Standing, request: GenerationRequest, takeover: Takeover) -> tuple[Parking, Orders]:
    """Card to host, every cell of the session."""
    assert takeover.park is not None
    sides = _sides(plan, takeover.park, start=0, end=len(takeover.park.session.ids))
    at, notice = notify(at, (Stream.VERIFIER,))
    return Parking(at, request, takeover), _copies([CopyPair(*pair) for pair in sides]).then(notice)


def restore(plan: Plan, at: Standing, request: GenerationRequest, takeover: Takeover) -> tuple[Restoring, Orders]:
    """Host to card, the cells that the card does not hold already."""
    assert takeover.restore is not None and takeover.kept < takeover.read_from, takeover
    sides = _sides(plan, takeover.restore, start=takeover.kept, end=takeover.read_from)
    at, notice = notify(replace(at, parked=at.parked.without(takeover.restore)), (Stream.VERIFIER,))
    return Restoring(at, request, takeover), _copies([CopyPair(host, card) for card, host in sides]).then(notice)


@dataclass(frozen=True, slots=True)
class _Piece:
    """What `card` holds of some tokens lies `offset_bytes` into what a place has of the layer's K, V or state."""

    card: Access
    offset_bytes: int
    whole_bytes: int


def _sides(plan: Plan, conversation: Parked, *, start: int, end: int) -> Iterator[tuple[Access, HostExtent]]:
    """Where tokens [start, end) of each piece lie, on the card and in `place`."""
    num_tokens, base_bytes = len(conversation.session.ids), 0
    assert start < end <= num_tokens, (start, end, num_tokens)
    assert end == num_tokens or can_rewind(plan.inventory.state_kinds), (end, num_tokens)
    for piece in _pieces(plan, start=start, end=end, num_tokens=num_tokens):
        place = conversation.place
        size_bytes = piece.card.extent.size_bytes
        yield piece.card, place.part(offset_bytes=base_bytes + piece.offset_bytes, size_bytes=size_bytes)
        base_bytes += piece.whole_bytes


def _pieces(plan: Plan, *, start: int, end: int, num_tokens: int = 0) -> Iterator[_Piece]:
    """Of tokens [start, end) of `num_tokens`: K and V of each layer that attends, the drafter's included, and then the
    state of each that does not. The name goes with the bytes: what left the card as K of a layer comes back as that
    or not at all."""
    inventory, options = plan.inventory, plan.options
    layout = kv_layout(
        kv_format=options.kv_format,
        context_tokens=options.context_tokens,
        num_kv_heads=inventory.num_kv_heads,
        head_dim=inventory.head_dim,
    )
    for layer, whole in enumerate(plan.kv):
        if whole.size_bytes:
            keys, values = layout.cells(whole, start=start, end=end)
            key_bytes, value_bytes = layout.key_bytes, layout.value_bytes
            yield _Piece(Access(keys, "kv", f"k {layer}"), start * key_bytes, num_tokens * key_bytes)
            yield _Piece(Access(values, "kv", f"v {layer}"), start * value_bytes, num_tokens * value_bytes)
    for layer, whole in enumerate(plan.state):
        if whole.size_bytes:
            yield _Piece(Access(whole, "state", f"state {layer}"), 0, whole.size_bytes)


def _copies(pairs: list[CopyPair]) -> Orders:
    groups = (pairs[first : first + MAX_COPY_GROUP] for first in range(0, len(pairs), MAX_COPY_GROUP))
    return Orders((), tuple(Copy(Stream.VERIFIER, tuple(group)) for group in groups))
