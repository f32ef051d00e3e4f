"""Where bytes are: the arena's home addresses, and the kinds of host memory that a copy may name. Different types
for different address spaces, so that one is never taken for the other."""

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True, order=True)
class Extent:
    """Bytes [offset, offset + size) of one arena. Home addresses never move, so an extent is an address for life."""

    offset_bytes: int
    size_bytes: int

    def __post_init__(self) -> None:
        assert self.offset_bytes >= 0 and self.size_bytes >= 0, self

    @property
    def end_bytes(self) -> int:
        return self.offset_bytes + self.size_bytes

    def overlaps(self, other: "Extent") -> bool:
        return self.offset_bytes < other.end_bytes and other.offset_bytes < self.end_bytes

    def contains(self, other: "Extent") -> bool:
        return self.offset_bytes <= other.offset_bytes and other.end_bytes <= self.end_bytes

    def part(self, *, offset_bytes: int, size_bytes: int) -> "Extent":
        """A piece of this extent, `offset_bytes` from its start; overrunning it is our mistake."""
        assert offset_bytes >= 0 and offset_bytes + size_bytes <= self.size_bytes, (self, offset_bytes, size_bytes)
        return self if size_bytes == self.size_bytes else Extent(self.offset_bytes + offset_bytes, size_bytes)


class HostSpace(StrEnum):
    PACK = "pack"  # the immutable master of every weight: blobs, then dense tensors
    STAGING = "staging"  # small pinned buffers that carry inputs to the card and results back
    PARKED = "parked"  # the state of conversations that had to leave the card


@dataclass(frozen=True, slots=True, order=True)
class HostExtent:
    """Bytes [offset, offset + size) of one host space."""

    space: HostSpace
    offset_bytes: int
    size_bytes: int

    def __post_init__(self) -> None:
        assert self.offset_bytes >= 0 and self.size_bytes >= 0, self

    @property
    def end_bytes(self) -> int:
        return self.offset_bytes + self.size_bytes

    def part(self, *, offset_bytes: int, size_bytes: int) -> "HostExtent":
        assert offset_bytes >= 0 and offset_bytes + size_bytes <= self.size_bytes, (self, offset_bytes, size_bytes)
        return HostExtent(self.space, self.offset_bytes + offset_bytes, size_bytes)
