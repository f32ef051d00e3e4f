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

    def runs(self, ring_slots: frozenset[int]) -> list[Extent]:
        """The bytes of `ring_slots`, neighbours in one."""
        runs: list[Extent] = []
        for slot in sorted(ring_slots):
            extent = self.slots[slot - self.first_slot]
            if runs and runs[-1].end_bytes == extent.offset_bytes:
                extent = Extent(runs[-1].offset_bytes, runs.pop().size_bytes + extent.size_bytes)
            runs.append(extent)
        return runs

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
