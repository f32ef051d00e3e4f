"""What must hold of checkpoints in a world, said over token ids and bytes: at which cuts a read leaves a state, which
one goes for it, which one a prompt goes on from, and what lies in each slot. Of the engine's list only positions and
slots are asked for.
"""

from sim.world.card import TERMINATORS, Card
from sim.world.errors import WorldFault
from sim.world.parked import Ids, shared_tokens, states_of
from strata.core.extent import HostExtent, HostSpace
from strata.core.serving.checkpoints import Checkpoint

LONGEST_STRETCH = 2048
"""Of tokens without a cut (`lending.md` 2)."""


class CheckpointWatch:
    """`_order`: positions whose state is kept, by when it was used last, from what was seen to happen; `_arriving`: the
    one whose copy was ordered by the step before."""

    def __init__(self, card: Card) -> None:
        self._card = card
        self._order: list[int] = []
        self._arriving: int | None = None
        self._wanted: tuple[int, ...] = ()
        self.num_evicted = 0

    @property
    def positions(self) -> tuple[int, ...]:
        return tuple(self._order)

    def best(self, held: Ids, prompt: Ids) -> int:
        """Where `prompt` may go on; 0 where no checkpoint stands in what it shares with `held`."""
        shared = shared_tokens(held, prompt[:-1])
        return max((position for position in self._order if position <= shared), default=0)

    def note_begun(self, prompt: Ids) -> None:
        """A read of `prompt` will leave as many states as there are slots, at its last cuts."""
        num_slots = self._card.geometry.num_checkpoints
        self._wanted = tuple(cuts_of(prompt[:-1])[-num_slots:]) if num_slots else ()

    def note_kept(self, num_tokens: int) -> None:
        """Cells from `num_tokens` on are about to be written over."""
        self._order = [position for position in self._order if position <= num_tokens]

    def note_used(self, position: int) -> None:
        """Its state is on the card again."""
        self._order.remove(position)
        self._order.append(position)

    def note_landed(self) -> None:
        """What was awaited has come."""
        if self._arriving is not None:
            self._order.append(self._arriving)
        self._arriving = None

    def note_read(self, num_tokens: int) -> bool:
        """So many tokens of the prompt are through all layers; gives whether a state is left there."""
        if num_tokens not in self._wanted or num_tokens in self._order or num_tokens == self._arriving:
            return False
        if len(self._order) == self._card.geometry.num_checkpoints:
            del self._order[0]
            self.num_evicted += 1
        self._arriving = num_tokens
        return True

    def note_recovered(self) -> None:
        self._order, self._arriving = [], None

    def check(self) -> None:
        """After every step: nothing is listed that has not landed, and nothing that has is forgotten."""
        listed = [each.position for each in self._listed()]
        if listed != self._order:
            raise WorldFault(f"checkpoints are listed at {listed}, in order of use they are at {self._order}")

    def check_rest(self, held: Ids) -> None:
        """Nothing is open: every listed slot has the state behind its tokens, layer by layer, and no two share one."""
        self.check()
        geometry = self._card.geometry
        slots = [each.slot_index for each in self._listed()]
        if len(set(slots)) < len(slots) or not set(slots) <= set(range(geometry.num_checkpoints)):
            raise WorldFault(f"checkpoints are in slots {slots} of {geometry.num_checkpoints}")
        for each in self._listed():
            right = states_of(geometry, held[: each.position])
            place = HostExtent(
                HostSpace.PARKED, geometry.parked_bytes + each.slot_index * geometry.slot_bytes, len(right)
            )
            if each.position > len(held) or bytes(self._card.payload.host(place)) != right:
                raise WorldFault(f"the checkpoint at {each.position} of {len(held)} tokens has another state: {place}")

    def _listed(self) -> tuple[Checkpoint, ...]:
        return self._card.runner._state.at.checkpoints.listed


def cuts_of(ids: Ids) -> list[int]:
    """Behind each token that ends a turn, and where there is none for too long."""
    cuts: list[int] = []
    since = 0
    for position, token in enumerate(ids, 1):
        since += 1
        if token in TERMINATORS or since == LONGEST_STRETCH:
            cuts.append(position)
            since = 0
    return cuts
