"""Which recurrent states of the live session are kept at its cuts, and which one a prompt may go on from.

    session       a a a a a a a b b b b b        K/V cells, on the card
    checkpoints         ^1      ^2               state behind 3 and 7 tokens, in slots of host memory
    prompt        a a a a a x y                  5 tokens are shared: go on from checkpoint 1, read 3..

A checkpoint is the state alone: the cells below it stay where they are, so it is worth something only as long as they
hold its tokens (`lending.md` 5, invariant 38). All states of a model have one size, and the budget is slots of it, in
host memory behind the places of parked conversations. Which positions are cut says `cuts.py`; the commands that fill
and read a slot are in `parking.py`.
"""

from dataclasses import dataclass, replace

from strata.core.extent import HostExtent, HostSpace
from strata.core.memory.planner import Plan
from strata.core.serving.cuts import cuts_of
from strata.core.serving.prefix import Session
from strata.core.units import SLOT_ALIGNMENT_BYTES, align_up


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state behind the first `position` tokens of the live session lies in slot `slot_index`."""

    position: int
    slot_index: int


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """`listed`: least recently used first. At most one for each position and slot. `arriving`: its copy is under way,
    so it is not listed yet. The numbers count since start; only who went for another one was evicted."""

    num_slots: int = 0
    listed: tuple[Checkpoint, ...] = ()
    arriving: Checkpoint | None = None
    num_saved: int = 0
    num_restored: int = 0
    num_evicted: int = 0

    def __post_init__(self) -> None:
        each = self.listed if self.arriving is None else (*self.listed, self.arriving)
        slots = {checkpoint.slot_index for checkpoint in each}
        assert len(slots) == len({checkpoint.position for checkpoint in each}) == len(each), self
        assert all(0 <= slot < self.num_slots for slot in slots), self

    def kept(self, num_tokens: int) -> "Checkpoints":
        """What is left once cells from `num_tokens` on hold nothing that is known."""
        arriving = self.arriving if self.arriving and self.arriving.position <= num_tokens else None
        listed = tuple(each for each in self.listed if each.position <= num_tokens)
        is_whole = arriving is self.arriving and len(listed) == len(self.listed)
        return self if is_whole else replace(self, listed=listed, arriving=arriving)

    def wanted(self, prompt_ids: tuple[int, ...], turn_ends: frozenset[int]) -> tuple[int, ...]:
        """Cuts of what is read of a prompt, all but its last token, at which the read leaves a state: as many as there
        are slots, the last ones, since those would take the slots of any before them."""
        return cuts_of(prompt_ids[:-1], turn_ends=turn_ends)[-self.num_slots :] if self.num_slots else ()

    def place(self, position: int) -> "tuple[Checkpoints, Checkpoint]":
        """A slot for the state behind `position` tokens, where none stands yet; the least recently used goes where none
        is free. It is listed once its copy has landed."""
        used = {each.slot_index for each in self.listed}
        # Of a small state there may be slots by the hundred thousand: only as many are looked at as are used.
        free = next((slot for slot in range(self.num_slots) if slot not in used), None)
        victims = () if free is not None else self.listed[:1]
        placed = Checkpoint(position, victims[0].slot_index if free is None else free)
        num_evicted = self.num_evicted + len(victims)
        return replace(self, listed=self.listed[len(victims) :], arriving=placed, num_evicted=num_evicted), placed

    def landed(self) -> "Checkpoints":
        """All that was ordered is over: what was arriving is the one used last."""
        if self.arriving is None:
            return self
        return replace(self, listed=(*self.listed, self.arriving), arriving=None, num_saved=self.num_saved + 1)

    def used(self, checkpoint: Checkpoint) -> "Checkpoints":
        """It is on the card again, and stays here as well, as the one used last."""
        listed = (*(each for each in self.listed if each != checkpoint), checkpoint)
        return replace(self, listed=listed, num_restored=self.num_restored + 1)

    def resume(self, session: Session, prompt_ids: tuple[int, ...]) -> Checkpoint | None:
        """The one from which least of the prompt must be read; None where none stands in what prompt and session
        share, the prompt's last token left out."""
        shared = session.usable(prompt_ids[:-1])
        standing = [each for each in self.listed if each.position <= shared]
        return max(standing, key=lambda each: each.position, default=None)


NO_CHECKPOINTS = Checkpoints()


def num_checkpoints(plan: Plan) -> int:
    """Slots that the budget has room for; 0 for a model without recurrent layers, which needs none."""
    return plan.options.checkpoint_bytes // _slot_bytes(plan) if _slot_bytes(plan) else 0


def checkpoint_place(plan: Plan, checkpoint: Checkpoint) -> HostExtent:
    """Where its state lies: layer by layer, without gaps."""
    offset_bytes = plan.options.parked_bytes + checkpoint.slot_index * _slot_bytes(plan)
    return HostExtent(HostSpace.PARKED, offset_bytes, state_bytes(plan))


def parked_space_bytes(plan: Plan) -> int:
    """Of the host space that parked conversations and checkpoints share."""
    return plan.options.parked_bytes + num_checkpoints(plan) * _slot_bytes(plan)


def state_bytes(plan: Plan) -> int:
    """All that cannot be rewound: of recurrent layers, and what the drafter has of the last token."""
    return sum(extent.size_bytes for extent in plan.state)


def _slot_bytes(plan: Plan) -> int:
    return align_up(state_bytes(plan), SLOT_ALIGNMENT_BYTES)
