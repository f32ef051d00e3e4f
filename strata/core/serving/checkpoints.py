"""Which recurrent states of the live session are kept at its cuts, and which one a prompt may go on from.

    session       a a a a a a a b b b b b        K/V cells, on the card
    checkpoints         ^1      ^2               state behind 3 and 7 tokens, in slots of host memory
    prompt        a a a a a x y                  5 tokens are shared: go on from checkpoint 1, read 3..

A checkpoint is the state alone: the cells below it stay where they are, so it is worth something only as long as they
hold its tokens (`lending.md` 5, invariant 38). All states of a model have one size, and the budget is slots of it.
Which positions are cut says `cuts.py`; the commands that fill and read a slot come with the machine's part of it.
"""

from dataclasses import dataclass, replace

from strata.core.inventory import ModelInventory
from strata.core.serving.prefix import Session
from strata.core.units import MIB, SLOT_ALIGNMENT_BYTES, align_up

CHECKPOINT_BYTES = 512 * MIB
"""Of host memory, for all of them (`lending.md` 3.5)."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state behind the first `position` tokens of the live session lies in slot `slot_index`."""

    position: int
    slot_index: int


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """`listed`: least recently used first. At most one for each position and slot."""

    num_slots: int
    listed: tuple[Checkpoint, ...] = ()

    def __post_init__(self) -> None:
        slots = {checkpoint.slot_index for checkpoint in self.listed}
        assert len(slots) == len({checkpoint.position for checkpoint in self.listed}) == len(self.listed), self
        assert slots <= set(range(self.num_slots)), self

    def kept(self, num_tokens: int) -> "Checkpoints":
        """What is left once cells from `num_tokens` on are overwritten."""
        return replace(self, listed=tuple(each for each in self.listed if each.position <= num_tokens))

    def place(self, position: int, *, needed: Checkpoint | None = None) -> "tuple[Checkpoints, Checkpoint] | None":
        """A slot for the state behind `position` tokens, and who is left: the least recently used goes where none is
        free, but never `needed`, from which a state is still to be copied. None where there is no slot for it, or one
        stands there already. It is listed once its copy is complete."""
        if any(each.position == position for each in self.listed):
            return None
        free = sorted(set(range(self.num_slots)) - {each.slot_index for each in self.listed})
        if free:
            return self, Checkpoint(position, free[0])
        victim = next((each for each in self.listed if each != needed), None)
        if victim is None:
            return None
        left = tuple(each for each in self.listed if each != victim)
        return replace(self, listed=left), Checkpoint(position, victim.slot_index)

    def used(self, checkpoint: Checkpoint) -> "Checkpoints":
        """Its copy is complete, in either direction: it is the one used last."""
        return replace(self, listed=(*(each for each in self.listed if each != checkpoint), checkpoint))

    def resume(self, session: Session, prompt_ids: tuple[int, ...]) -> Checkpoint | None:
        """The one from which least of the prompt must be read; None where none stands in what prompt and session
        share, the prompt's last token left out."""
        shared = session.usable(prompt_ids[:-1])
        standing = [each for each in self.listed if each.position <= shared]
        return max(standing, key=lambda each: each.position, default=None)


def num_checkpoints(inventory: ModelInventory, budget_bytes: int) -> int:
    """Slots that the budget has room for; 0 for a model without recurrent layers, which needs none."""
    slot_bytes = align_up(sum(inventory.state_bytes), SLOT_ALIGNMENT_BYTES)
    return budget_bytes // slot_bytes if slot_bytes else 0
