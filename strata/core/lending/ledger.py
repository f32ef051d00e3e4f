"""Who owns which byte of the arena, by the books. Owners change by transfers alone, and a transfer names both sides, so
that a byte is never given away by somebody who does not have it (`lending.md` 5, invariant 1).

The twin keeps its own map, made from the same commands and judged apart; this one runs in production too.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from strata.core.commands import Transfer
from strata.core.extent import Extent


@dataclass(frozen=True, slots=True)
class Holding:
    """`owner` holds every byte of `extent`."""

    extent: Extent
    owner: str


@dataclass(frozen=True, slots=True)
class Ledger:
    """Holdings in address order, without gaps or overlaps between the first and the last."""

    holdings: tuple[Holding, ...]

    def after(self, transfers: Iterable[Transfer]) -> "Ledger":
        """The books once `transfers` have taken place. A giver that does not hold every byte is our mistake."""
        ledger = self
        for transfer in transfers:
            ledger = ledger._moved(transfer)
        ledger.check()
        return ledger

    def is_owner(self, owner: str, extent: Extent) -> bool:
        """Whether `owner` holds every byte of `extent`."""
        held = [holding for holding in self.holdings if holding.extent.overlaps(extent)]
        return bool(held) and all(holding.owner == owner for holding in held)

    def check(self) -> None:
        """Holdings tile their range: each byte has exactly one owner."""
        for left, right in pairwise(self.holdings):
            assert left.extent.end_bytes == right.extent.offset_bytes, (left, right)

    def _moved(self, transfer: Transfer) -> "Ledger":
        assert self.is_owner(transfer.giver, transfer.extent), (transfer, self)
        pieces: list[Holding] = []
        for holding in self.holdings:
            pieces += _without(holding, transfer.extent)
        pieces.append(Holding(transfer.extent, transfer.taker))
        return Ledger(_joined(sorted(pieces, key=lambda holding: holding.extent.offset_bytes)))


def _joined(holdings: list[Holding]) -> tuple[Holding, ...]:
    """Neighbours of one owner as one, so that the books of a thousand loans are no longer than those of one."""
    joined: list[Holding] = []
    for holding in holdings:
        if joined and joined[-1].owner == holding.owner and joined[-1].extent.end_bytes == holding.extent.offset_bytes:
            whole = Extent(joined[-1].extent.offset_bytes, joined[-1].extent.size_bytes + holding.extent.size_bytes)
            joined[-1] = Holding(whole, holding.owner)
        else:
            joined.append(holding)
    return tuple(joined)


def _without(holding: Holding, gone: Extent) -> list[Holding]:
    """What is left of `holding` to either side of `gone`."""
    start, end = holding.extent.offset_bytes, holding.extent.end_bytes
    if end <= gone.offset_bytes or gone.end_bytes <= start:
        return [holding]
    sides = ((start, min(end, gone.offset_bytes)), (max(start, gone.end_bytes), end))
    return [Holding(Extent(first, last - first), holding.owner) for first, last in sides if last > first]
