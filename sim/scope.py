"""What one launch may touch. Knows the declared extents only; whether they were in order is decided before it runs."""

from collections.abc import Callable, Iterable, Sequence

from sim.errors import PageableRead, UndeclaredAccess
from sim.interval import Spans
from sim.streams import Operation
from sim.tables import Readers
from strata.core.commands import Access
from strata.core.extent import Extent, HostExtent, HostSpace
from strata.device import DeviceDescription

FEW = 8


class LaunchScope:
    """What one launch declared: asked by the payload before a program gets at any byte.

    A declared write may be read too. Through the address table a program reaches the version's entries, the table
    itself and the pinned part of the pack, the pack read-only."""

    __slots__ = ("_by", "_description", "_pack_reads", "_readable", "_reads", "_tables", "_writable", "_writes")

    def __init__(
        self,
        description: DeviceDescription,
        by: Operation,
        *,
        reads: Sequence[Access],
        writes: Sequence[Access],
        tables: Sequence[Readers],
    ) -> None:
        self._description, self._by = description, by
        self._reads, self._writes, self._tables = reads, writes, tables
        self._readable: Spans | None = None
        self._writable: Spans | None = None
        self._pack_reads: dict[int, int] = {}

    @property
    def pack_read_bytes(self) -> int:
        """Bytes viewed in the pack, each address counted once, at its largest size."""
        return sum(self._pack_reads.values())

    def check_read(self, extent: Extent) -> None:
        start, end = extent.offset_bytes, extent.end_bytes
        if not self._is_readable(start, end):
            raise self._undeclared(f"reads arena [{start}, {end})", (*self._reads, *self._writes))

    def check_write(self, extent: Extent) -> None:
        start, end = extent.offset_bytes, extent.end_bytes
        if not self._is_writable(start, end):
            raise self._undeclared(f"writes arena [{start}, {end})", self._writes)

    def _is_readable(self, start: int, end: int) -> bool:
        """A program mostly asks for bytes just as they are declared, so few declarations are looked through first."""
        if len(self._reads) <= FEW and (_holds(self._reads, start, end) or _holds(self._writes, start, end)):
            return True
        if self._readable is None:
            self._readable = _spans((*self._reads, *self._writes))
        return self._readable.contains(start, end) or any(t.spans.contains(start, end) for t in self._tables)

    def _is_writable(self, start: int, end: int) -> bool:
        if _holds(self._writes, start, end):
            return True
        if self._writable is None:
            self._writable = _spans(self._writes)
        return self._writable.contains(start, end)

    def resolve(self, address: int, size_bytes: int) -> Extent | HostExtent:
        """The bytes at a device address, declared and inside one address space."""
        pack_offset = address - self._description.pack_address
        if size_bytes >= 0 and 0 <= pack_offset <= self._description.pack_bytes - size_bytes and self._tables:
            self._check_pinned(pack_offset, size_bytes)
            self._pack_reads[address] = max(size_bytes, self._pack_reads.get(address, 0))
            return HostExtent(HostSpace.PACK, pack_offset, size_bytes)
        offset = address - self._description.arena_address
        if size_bytes < 0 or not 0 <= offset <= self._description.range_bytes - size_bytes:
            raise self._undeclared(f"views address={address:#x} size_bytes={size_bytes}", (*self._reads, *self._writes))
        extent = Extent(offset, size_bytes)
        self.check_read(extent)
        return extent

    def check_words(self, words: Sequence[int], end_of: Callable[[int], int]) -> None:
        """Addresses that lie before the program, whether it follows them or not; `end_of`: of what lies at that place
        of the pack."""
        for word in words:
            pack_offset = word - self._description.pack_address
            if 0 <= pack_offset < self._description.pack_bytes:
                self._check_pinned(pack_offset, end_of(pack_offset) - pack_offset)

    def _check_pinned(self, pack_offset: int, size_bytes: int) -> None:
        pinned_bytes = self._description.pack_bytes - self._description.pageable_pack_bytes
        if pack_offset + size_bytes > pinned_bytes:
            raise PageableRead(
                f"{self._by} follows an address to pack [{pack_offset}, {pack_offset + size_bytes}), of which programs "
                f"reach the first {pinned_bytes:,} B: the rest is pageable; copy it into a slot first",
                self._by.command,
            )

    def _undeclared(self, what: str, declared: Sequence[Access]) -> UndeclaredAccess:
        spans = ", ".join(f"[{start}, {end})" for start, end in list(_spans(declared))[:8]) or "nothing"
        tables = ", ".join(f"table version={table.version}" for table in self._tables) or "no table"
        return UndeclaredAccess(
            f"{self._by} {what}, which its launch does not declare: it declares arena {spans}, {tables}",
            self._by.command,
        )


def _holds(accesses: Sequence[Access], start: int, end: int) -> bool:
    """Whether [start, end) lies in one of them."""
    for access in accesses:
        offset_bytes = access.extent.offset_bytes
        if offset_bytes <= start and end <= offset_bytes + access.extent.size_bytes:
            return True
    return False


def _spans(accesses: Iterable[Access]) -> Spans:
    return Spans((access.extent.offset_bytes, access.extent.end_bytes) for access in accesses)
