"""A value for every byte: runs of equal values, for following what commands did to a card.

The twin has a map of its own (`sim/interval.py`), which this must not know: what is compared is written twice.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Runs(Generic[T]):
    """Every byte of [0, size_bytes) has one value; equal neighbours are one run."""

    __slots__ = ("_starts", "_values", "size_bytes")

    def __init__(self, size_bytes: int, value: T) -> None:
        self.size_bytes = size_bytes
        self._starts, self._values = [0], [value]

    def copy(self) -> "Runs[T]":
        """Of the same values, and independent."""
        other = Runs(self.size_bytes, self._values[0])
        other._starts, other._values = list(self._starts), list(self._values)
        return other

    def assign(self, start: int, end: int, value: T) -> None:
        """Bytes [start, end) have `value` now."""
        if start >= end:
            return
        assert start >= 0 and end <= self.size_bytes, (start, end, self.size_bytes)
        starts, values = self._starts, self._values
        first, last = bisect_left(starts, start), bisect_left(starts, end)
        new: list[tuple[int, T]] = []
        if not (first and values[first - 1] == value):
            new.append((start, value))
        if end < self.size_bytes and (last == len(starts) or starts[last] != end):
            if values[last - 1] != value:
                new.append((end, values[last - 1]))
        elif last < len(starts) and values[last] == value:
            last += 1
        starts[first:last] = [at for at, _ in new]
        values[first:last] = [found for _, found in new]

    def over(self, start: int, end: int) -> Iterator[tuple[int, int, T]]:
        """(start, end, value) of every run that meets [start, end), cut to it."""
        if start >= end:
            return
        at = bisect_right(self._starts, start) - 1
        while start < end:
            stop = min(end, self._starts[at + 1] if at + 1 < len(self._starts) else self.size_bytes)
            yield start, stop, self._values[at]
            start, at = stop, at + 1

    def __iter__(self) -> Iterator[tuple[int, int, T]]:
        return self.over(0, self.size_bytes)
