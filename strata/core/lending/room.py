"""The room: the drafter's block used as ring slots where it lies, while a prompt is read (`lending.md` 3.1).

    block    | slot rule | slot rule + 1 | ... | slot rule + n - 1 | rest |        n = floor(block / stride)

Opening and closing change who owns the block and a count, nothing else: no byte is copied out, addresses stay, and what
the read does not write is never copied back. A slot that it wrote is *dirty*; it goes home by one copy from the pack,
not before its last reader, and may still be on its way during the first window.
"""

from dataclasses import dataclass, replace

from strata.core.commands import Transfer
from strata.core.extent import Extent
from strata.core.lending.loan import PROMPT, LoanPhase
from strata.core.memory.fixed import BLOCK


@dataclass(frozen=True, slots=True)
class Room:
    """`extent` is the block; `slots` of it are the ring's from `first_slot` on. `num_entries` had gone through the ring
    when the read ended. `returned`: ring slots whose copy home is issued."""

    extent: Extent
    slots: tuple[Extent, ...]
    first_slot: int
    num_entries: int = 0
    returned: frozenset[int] = frozenset()
    phase: LoanPhase = LoanPhase.LENT

    def slot(self, ring_slot: int) -> Extent:
        return self.slots[ring_slot - self.first_slot]

    def dirty(self, num_entries: int) -> frozenset[int]:
        """The room's ring slots that the first `num_entries` of a read have written."""
        end = self.first_slot + len(self.slots)
        return frozenset(range(self.first_slot, min(end, num_entries)))

    def returning(self, slots: frozenset[int]) -> "Room":
        """Copies home of `slots` are issued; a slot goes home once."""
        assert self.phase is LoanPhase.LENT and not slots & self.returned, (self, slots)
        return replace(self, returned=self.returned | slots)

    def restoring(self) -> "Room":
        """Every dirty slot is on its way. A failure repeats it."""
        return replace(self, phase=LoanPhase.RESTORING)

    @property
    def open(self) -> Transfer:
        return Transfer(self.extent, BLOCK, PROMPT, in_place=True)

    @property
    def close(self) -> Transfer:
        return Transfer(self.extent, PROMPT, BLOCK, in_place=True)
