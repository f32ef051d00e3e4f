"""A byte-exact map from addresses to values: runs of equal values between sorted boundaries.

It knows nothing of what the values mean. Cost: a bisection, and work only for the runs that are touched.

    boundaries   0        100         356          size
    values       |   a     |     b     |     a      |
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")

_NOTHING = object()


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

    def values(self, start: int, end: int) -> list[T]:
        """The values of the runs that meet [start, end), in address order."""
        if start >= end:
            return []
        first = bisect_right(self._starts, start) - 1
        return self._values[first : bisect_left(self._starts, end, first)]

    def runs(self, start: int, end: int) -> Iterator[tuple[int, int, T]]:
        """(start, end, value) of each run that meets [start, end), cut to it."""
        if start >= end:
            return
        first = bisect_right(self._starts, start) - 1
        last = bisect_left(self._starts, end, first)
        bounds = [start, *self._starts[first + 1 : last], end]
        yield from zip(bounds, bounds[1:], self._values[first:last], strict=False)

    def whole_runs(self, start: int, end: int) -> Iterator[tuple[int, T]]:
        """(start, value) of each run that meets [start, end), from where the run begins."""
        if start < end:
            first = bisect_right(self._starts, start) - 1
            last = bisect_left(self._starts, end, first)
            yield from zip(self._starts[first:last], self._values[first:last], strict=True)

    def assign(self, start: int, end: int, value: T) -> None:
        """Every byte of [start, end) now has `value`."""
        self._splice(start, end, ((start, value),))

    def update(self, start: int, end: int, change: Callable[[T], T]) -> None:
        """Every byte of [start, end) has `change` of the value it had. `change` is called once a run."""
        self._splice(start, end, [(at, change(value)) for at, _, value in self.runs(start, end)])

    def _splice(self, start: int, end: int, pieces: Iterable[tuple[int, T]]) -> None:
        """Put `pieces` (boundary, value) in place of [start, end); equal neighbours melt into one run."""
        if start >= end:
            return
        assert start >= 0 and end <= self.size_bytes, (start, end, self.size_bytes)
        starts, values = self._starts, self._values
        first = bisect_right(starts, start) - 1
        last = bisect_left(starts, end, first)
        tail, tail_end = values[last - 1], starts[last] if last < len(starts) else self.size_bytes
        low = first + (starts[first] < start)
        before: object = values[low - 1] if low else _NOTHING
        new_starts: list[int] = []
        new_values: list[T] = []
        for at, value in (*pieces, (end, tail)) if end < tail_end else pieces:
            if before is not value and before != value:
                new_starts.append(at)
                new_values.append(value)
                before = value
        if end == tail_end and last < len(starts) and values[last] == before:
            last += 1
        starts[low:last] = new_starts
        values[low:last] = new_values


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
