"""What one launch may touch. Knows the declared extents only; whether they were in order is decided before it runs."""

from collections.abc import Callable, Sequence
from functools import lru_cache

from sim.errors import PageableRead, UndeclaredAccess
from sim.interval import Spans
from sim.streams import Operation
from sim.tables import Readers
from strata.core.commands import Access
from strata.core.extent import Extent, HostExtent, HostSpace
from strata.device import DeviceDescription

Span = tuple[int, int]
_extent, _host_extent = lru_cache(maxsize=4096)(Extent), lru_cache(maxsize=4096)(HostExtent)
"""The same few addresses are followed again and again."""


class Declared:
    """What a launch declares, in numbers: `readable` has the writes too."""

    __slots__ = ("readable", "reads", "writable", "writes")

    def __init__(self, reads: Sequence[Access], writes: Sequence[Access]) -> None:
        self.reads, self.writes = reads, writes
        self.writable = spans_of(writes)
        self.readable = self.writable + spans_of(reads)


class LaunchScope:
    """What one launch may touch: asked by the payload before a program gets at any byte.

    Through the address table a program reaches the version's entries, the table itself and the pinned part of the
    pack, the pack read-only. `pack_read_bytes`: viewed there, each address counted once, at its largest size."""

    __slots__ = ("_by", "_declared", "_description", "_pack_reads", "_tables", "pack_read_bytes")

    def __init__(
        self, description: DeviceDescription, by: Operation, declared: Declared, tables: Sequence[Readers]
    ) -> None:
        self._description, self._by, self._declared, self._tables = description, by, declared, tables
        self._pack_reads: dict[int, int] = {}
        self.pack_read_bytes = 0

    def check_read(self, extent: Extent) -> None:
        """A program mostly asks for bytes as they are declared, so each declaration is looked at by itself first."""
        start = extent.offset_bytes
        end = start + extent.size_bytes
        for first, behind in self._declared.readable:
            if first <= start and end <= behind:
                return
        if not self._is_readable(start, end):
            raise self._undeclared(f"reads arena [{start}, {end})", (*self._declared.reads, *self._declared.writes))

    def check_write(self, extent: Extent) -> None:
        start = extent.offset_bytes
        end = start + extent.size_bytes
        for first, behind in self._declared.writable:
            if first <= start and end <= behind:
                return
        if not Spans(self._declared.writable).contains(start, end):
            raise self._undeclared(f"writes arena [{start}, {end})", self._declared.writes)

    def _is_readable(self, start: int, end: int) -> bool:
        """Declarations that touch are taken for one."""
        tables = [table.spans for table in self._tables]
        return any(spans.contains(start, end) for spans in (*tables, Spans(self._declared.readable)))

    def resolve(self, address: int, size_bytes: int) -> Extent | HostExtent:
        """The bytes at a device address, declared and inside one address space."""
        card = self._description
        pack_offset = address - card.pack_address
        if size_bytes >= 0 and 0 <= pack_offset <= card.pack_bytes - size_bytes and self._tables:
            self._check_pinned(pack_offset, size_bytes)
            before_bytes = self._pack_reads.get(address, 0)
            if size_bytes > before_bytes:
                self._pack_reads[address] = size_bytes
                self.pack_read_bytes += size_bytes - before_bytes
            return _host_extent(HostSpace.PACK, pack_offset, size_bytes)
        offset = address - card.arena_address
        if size_bytes < 0 or not 0 <= offset <= card.range_bytes - size_bytes:
            sides = (*self._declared.reads, *self._declared.writes)
            raise self._undeclared(f"views address={address:#x} size_bytes={size_bytes}", sides)
        extent = _extent(offset, size_bytes)
        for table in self._tables:
            if table.spans.contains(offset, offset + size_bytes):
                return extent
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
        spans = ", ".join(f"[{start}, {end})" for start, end in list(Spans(spans_of(declared)))[:8]) or "nothing"
        tables = ", ".join(f"table version={table.version}" for table in self._tables) or "no table"
        return UndeclaredAccess(
            f"{self._by} {what}, which its launch does not declare: it declares arena {spans}, {tables}",
            self._by.command,
        )


def spans_of(accesses: Sequence[Access]) -> list[Span]:
    return [(a.extent.offset_bytes, a.extent.offset_bytes + a.extent.size_bytes) for a in accesses]
