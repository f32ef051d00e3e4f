"""A byte-exact map from addresses to values: runs of equal values between sorted boundaries.

It knows nothing of what the values mean. For what is written once and asked often: an assignment rebuilds the runs that
it touches.

    boundaries   0        100         356          size
    values       |   a     |     b     |     a      |
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Generic, TypeVar

T = TypeVar("T")


class IntervalMap(Generic[T]):
    """Every byte of [0, size_bytes) has exactly one value; neighbours of equal value are one run."""

    __slots__ = ("_starts", "_values", "size_bytes")

    def __init__(self, size_bytes: int, value: T) -> None:
        self.size_bytes = size_bytes
        self._starts = [0]
        self._values = [value]

    def __len__(self) -> int:
        """How many runs there are."""
        return len(self._starts)

    def whole_runs(self, start: int, end: int) -> Iterator[tuple[int, T]]:
        """(start, value) of each run that meets [start, end), from where the run begins."""
        if start < end:
            first = bisect_right(self._starts, start) - 1
            last = bisect_left(self._starts, end, first)
            yield from zip(self._starts[first:last], self._values[first:last], strict=True)

    def end_of(self, position: int) -> int:
        """Where the run that `position` lies in ends."""
        behind = bisect_right(self._starts, position)
        return self._starts[behind] if behind < len(self._starts) else self.size_bytes

    def assign(self, start: int, end: int, value: T) -> None:
        """Every byte of [start, end) now has `value`."""
        if start >= end:
            return
        assert start >= 0 and end <= self.size_bytes, (start, end, self.size_bytes)
        starts, values = self._starts, self._values
        first = bisect_right(starts, start) - 1
        last = bisect_left(starts, end, first)
        run_end = starts[last] if last < len(starts) else self.size_bytes
        pieces = [(starts[first], values[first]), (start, value)] if starts[first] < start else [(start, value)]
        if end < run_end:
            pieces.append((end, values[last - 1]))
        # One run more on either side, which may have the value of what is put beside it.
        if first > 0:
            first -= 1
            pieces.insert(0, (starts[first], values[first]))
        if last < len(starts):
            pieces.append((starts[last], values[last]))
            last += 1
        kept = pieces[:1] + [piece for before, piece in pairwise(pieces) if piece[1] != before[1]]
        starts[first:last] = [at for at, _ in kept]
        values[first:last] = [kept_value for _, kept_value in kept]


class Spans:
    """A fixed set of bytes, for asking whether [start, end) lies inside it. Touching spans are one."""

    __slots__ = ("_ends", "_starts")

    def __init__(self, spans: Iterable[tuple[int, int]]) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in sorted(spans):
            if self._ends and start <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], end)
            elif start < end:
                self._starts.append(start)
                self._ends.append(end)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._starts, self._ends, strict=True)

    def contains(self, start: int, end: int) -> bool:
        at = bisect_right(self._starts, start) - 1
        return start == end or (at >= 0 and end <= self._ends[at])
