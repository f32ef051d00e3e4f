"""One address space as runs of bytes of which everything known is the same.

    cells    | kv, written by #3 | kv, written by #9, read by #12 |  nobody  |
             0                  100                              356       size

A cell is changed in place; whoever touches bytes first cuts, so that cells begin and end where those bytes do. The same
extents are touched again and again, so after a while nothing is cut any more and an access is one bisection. What a
write makes equal melts into one cell again. Knows nothing of what the facts mean, and judges nothing.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sim.streams import Operation
    from sim.tables import Readers

NOBODY = ""


@dataclass(frozen=True, slots=True)
class Content:
    """Defined bytes; `name` is None where the writer gave none. `start_bytes`: the address at which the whole of what
    is named would begin, None where that is not known: pieces of one blob belong together only if they agree on it."""

    name: str | None
    start_bytes: int | None = None


UNNAMED = Content(None)
named = lru_cache(maxsize=4096)(Content)
"""The same few names are left again and again."""


@dataclass(slots=True, eq=False)
class Cell:
    """Bytes [start, end). `generation` counts transfers; `content` is None where nobody wrote since the bytes were last
    mapped or passed on; `write` is the last writer, `reads` those since that no later one is known to come after;
    `readers` the table versions through which the bytes have been read; `mapped_at`: how many changes the card had seen
    when all of them were found mapped."""

    start: int
    end: int
    owner: str = NOBODY
    generation: int = 0
    content: Content | None = None
    write: "Operation | None" = None
    reads: tuple["Operation", ...] = ()
    readers: tuple["Readers", ...] = ()
    mapped_at: int = -1

    def split(self, at: int) -> "Cell":
        """Keep what lies before `at`; the rest, of which the same is known."""
        start, end, self.end = at, self.end, at
        return Cell(start, end, self.owner, self.generation, self.content, self.write, self.reads, self.readers)

    def is_like(self, other: "Cell") -> bool:
        """Whether the same is known of both."""
        return (
            self.write is other.write
            and self.owner == other.owner
            and self.generation == other.generation
            and self.content == other.content
            and self.reads == other.reads
            and self.readers == other.readers
        )


class Cells:
    """Every byte of [0, size_bytes) lies in exactly one cell. `num_cuts` counts the cells that were split; `at`: each
    of them by its start."""

    __slots__ = ("_cells", "_starts", "at", "num_cuts", "size_bytes")

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.num_cuts = 0
        self._starts = [0]
        self._cells = [Cell(0, size_bytes)]
        self.at = {0: self._cells[0]}

    def __len__(self) -> int:
        return len(self._cells)

    def cut(self, start: int, end: int) -> list[Cell]:
        """The cells of [start, end), the first of which begins and the last of which ends there."""
        if start >= end:
            return []
        cell = self.at.get(start)
        if cell is not None and cell.end == end:
            return [cell]
        starts, cells = self._starts, self._cells
        first = bisect_right(starts, start) - 1
        if starts[first] != start:
            self._split(first, start)
            first += 1
        last = bisect_left(starts, end, first)
        if cells[last - 1].end != end:
            self._split(last - 1, end)
        return cells[first:last]

    def meeting(self, start: int, end: int) -> Iterator[tuple[int, int, Cell]]:
        """(start, end, cell) of every cell that meets [start, end), the numbers cut to it. Cuts nothing."""
        for cell in self.met(start, end):
            yield max(start, cell.start), min(end, cell.end), cell

    def met(self, start: int, end: int) -> list[Cell]:
        """Every cell that meets [start, end), whole."""
        if start >= end:
            return []
        first = bisect_right(self._starts, start) - 1
        return self._cells[first : bisect_left(self._starts, end, first)]

    def melt(self, start: int, end: int) -> None:
        """Cells that meet [start, end) have changed: neighbours among them of which the same is known become one."""
        first = bisect_right(self._starts, start) - 1
        cells = self._cells[first : bisect_left(self._starts, end, first)]
        kept = cells[:1]
        for cell in cells[1:]:
            if kept[-1].is_like(cell):
                kept[-1].end, kept[-1].mapped_at = cell.end, -1
                del self.at[cell.start]
            else:
                kept.append(cell)
        if len(kept) < len(cells):
            self._cells[first : first + len(cells)] = kept
            self._starts[first : first + len(cells)] = [cell.start for cell in kept]

    def _split(self, index: int, at: int) -> None:
        assert at <= self.size_bytes, (at, self.size_bytes)
        self.at[at] = rest = self._cells[index].split(at)
        self._cells.insert(index + 1, rest)
        self._starts.insert(index + 1, at)
        self.num_cuts += 1
