"""The card over the entries of a trace: who owned which bytes from when to when, and when nothing was defined in them.

    bytes  |  cache   |  prompt (undefined, then written)  |  cache (undefined until refilled) | ...
           +----------+------------------------------------+-----------------------------------+---> entries

Rectangles of equal value, merged over time and over bytes. Knows nothing of how they are drawn.
"""

from dataclasses import dataclass
from typing import Generic, TypeVar

from strata.core.commands import Access, Transfer
from strata.core.extent import Extent, HostExtent
from strata.trace.card_state import CardState
from strata.trace.command_trace import CardSizes, CommandTrace
from strata.trace.entries import Entry, Refused
from strata.trace.runs import Runs

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Box(Generic[T]):
    """Entries [first, end) of the trace, counted from 0, and the bytes that had `value` all that time."""

    first: int
    end: int
    extent: Extent
    value: T


@dataclass(frozen=True, slots=True)
class CardHistory:
    """`owners`: of every byte that somebody owned. `undefined`: of those, which nobody could have read, and whose they
    were."""

    num_entries: int
    owners: tuple[Box[str], ...]
    undefined: tuple[Box[str], ...]


def follow(trace: CommandTrace) -> CardHistory:
    state = _Followed(trace.sizes)
    for at, entry in enumerate(trace.entries):
        state.at = at
        if not isinstance(entry, Refused):
            state.apply(entry)
    end = len(trace.entries)
    owners = tuple(box for box in state.holders.finish(end) if box.value)
    undefined = tuple(box for box in state.undefined.finish(end) if box.value)
    return CardHistory(end, owners, undefined)


class _Timed(Generic[T]):
    """Values of bytes, each with the entry since when it holds."""

    def __init__(self, size_bytes: int, value: T) -> None:
        self._now: Runs[tuple[T, int]] = Runs(size_bytes, (value, 0))
        self._boxes: list[Box[T]] = []

    def assign(self, start: int, end: int, value: T, at: int) -> None:
        for first, last, (held, since) in list(self._now.over(start, end)):
            if held != value:
                if since < at:
                    self._boxes.append(Box(since, at, Extent(first, last - first), held))
                self._now.assign(first, last, (value, at))

    def finish(self, at: int) -> list[Box[T]]:
        boxes = [Box(since, at, Extent(a, b - a), held) for a, b, (held, since) in self._now if since < at]
        return sorted([*self._boxes, *boxes], key=lambda box: (box.first, box.extent))


class _Followed(CardState):
    def __init__(self, sizes: CardSizes) -> None:
        super().__init__(sizes)
        self.at = 0
        self.holders: _Timed[str] = _Timed(self.owners.size_bytes, "")
        self.undefined: _Timed[str] = _Timed(self.owners.size_bytes, "")

    def apply(self, entry: Entry) -> None:
        if isinstance(entry, Transfer):
            start, end = entry.extent.offset_bytes, entry.extent.end_bytes
            self.holders.assign(start, end, entry.taker, self.at)
        super().apply(entry)

    def _write(self, side: Access | HostExtent) -> None:
        super()._write(side)
        if isinstance(side, Access):
            self.undefined.assign(side.extent.offset_bytes, side.extent.end_bytes, "", self.at)

    def _forget(self, where: Extent | HostExtent) -> None:
        super()._forget(where)
        if isinstance(where, Extent):
            for start, end, owner in list(self.owners.over(where.offset_bytes, where.end_bytes)):
                self.undefined.assign(start, end, owner, self.at)
