"""One loan of expert-cache slots to the prompt path, and the phases it may go through.

    held --reserve--> RESERVED --commit--> LENT --reclaim--> RESTORING --settle--> held
                          |                  (a failure repeats it) ^ |
                          '--withdraw--------------------------------'

RESERVED: the table without the lent pairs is on its way; the slots still hold their blobs. LENT: the bytes are the
prompt path's and undefined as blobs. RESTORING: the slots are the cache's again, and their blobs are being copied from
the pack. Nothing is saved when bytes are lent: the pack has every blob, so a reclaim can be repeated until it succeeds.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from strata.core.commands import Transfer
from strata.core.extent import Extent
from strata.core.lending.ledger import Ledger
from strata.core.memory.shapes import Slot

CACHE, PROMPT = "cache", "prompt"


class LoanPhase(StrEnum):
    """Room and segments have the last two."""

    RESERVED = "reserved"
    LENT = "lent"
    RESTORING = "restoring"


_NEXT = {
    (LoanPhase.RESERVED, LoanPhase.LENT),
    (LoanPhase.RESERVED, LoanPhase.RESTORING),
    (LoanPhase.LENT, LoanPhase.RESTORING),
    (LoanPhase.RESTORING, LoanPhase.RESTORING),
}


@dataclass(frozen=True, slots=True)
class Loan:
    """`extent` is every byte that changes hands, the slots of `slots` and what lies behind the last one. `stamp` tells
    loans apart: no two of a process have the same."""

    stamp: int
    extent: Extent
    slots: tuple[Slot, ...]
    phase: LoanPhase

    def moved(self, phase: LoanPhase) -> "Loan":
        """The same loan in its next phase; an order that is not in the picture is our mistake and changes nothing."""
        assert (self.phase, phase) in _NEXT, f"loan {self.stamp}: {self.phase} -> {phase} is illegal"
        return replace(self, phase=phase)

    def check_settled(self, ledger: Ledger) -> None:
        """The refill has landed; the books agree that the cache has every byte."""
        assert self.phase is LoanPhase.RESTORING, self
        assert ledger.is_owner(CACHE, self.extent), (self, ledger)

    @property
    def lend(self) -> Transfer:
        return Transfer(self.extent, CACHE, PROMPT)

    @property
    def give_back(self) -> Transfer:
        return Transfer(self.extent, PROMPT, CACHE)


def reserve(extent: Extent, slots: tuple[Slot, ...], *, stamp: int) -> Loan:
    """A loan of the tail of the cache. At least one slot: bytes behind the cache alone are no loan."""
    assert slots
    assert all(extent.contains(slot.extent) for slot in slots), (extent, slots)
    return Loan(stamp, extent, slots, LoanPhase.RESERVED)
