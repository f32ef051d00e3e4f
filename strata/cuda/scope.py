"""What one launch may touch, asked by `memory.read`, `write` and `view` before a program gets a tensor.

This keeps a program to its declaration where the host can see it. What a kernel does with an address it found in a
table is seen by the twin alone. The rules are the twin's (`strata.device.Memory`): a declared write may be read too;
through the address table a program reaches the version's entries, the table itself and the whole pack, read-only.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from operator import attrgetter

from strata.core.commands import Access, Launch
from strata.core.errors import DeviceError
from strata.core.extent import Extent, HostExtent, HostSpace
from strata.device import DeviceDescription


class Spans:
    """A set of bytes, as runs in order: touching and overlapping extents are one run."""

    __slots__ = ("_ends", "_starts")

    def __init__(self, extents: Iterable[Extent]) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for extent in sorted(extents, key=attrgetter("offset_bytes")):
            if self._ends and extent.offset_bytes <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], extent.end_bytes)
            elif extent.size_bytes:
                self._starts.append(extent.offset_bytes)
                self._ends.append(extent.end_bytes)

    def contains(self, extent: Extent) -> bool:
        run = bisect_right(self._starts, extent.offset_bytes) - 1
        return extent.size_bytes == 0 or (run >= 0 and extent.end_bytes <= self._ends[run])

    def extents(self) -> list[Extent]:
        return [Extent(start, end - start) for start, end in zip(self._starts, self._ends, strict=True)]

    def __str__(self) -> str:
        runs = [f"[{start}, {end})" for start, end in zip(self._starts[:8], self._ends[:8], strict=True)]
        return ", ".join(runs) + (", ..." if len(self._starts) > 8 else "") or "nothing"


class LaunchScope:
    """Of one launch. `tables`: the bytes behind each version that it reads through. `pinned_pack_bytes`: kernels
    reach no further into the pack."""

    __slots__ = ("_description", "_launch", "_pack_reads", "_pinned_pack_bytes", "_readable", "_tables", "_writable")

    def __init__(
        self, description: DeviceDescription, launch: Launch, tables: Sequence[Spans], *, pinned_pack_bytes: int
    ) -> None:
        self._description, self._launch, self._tables = description, launch, tables
        self._pinned_pack_bytes = pinned_pack_bytes
        reads = [read.extent for read in launch.reads if isinstance(read, Access)]
        writes = [write.extent for write in launch.writes]
        self._readable, self._writable = Spans([*reads, *writes]), Spans(writes)
        self._pack_reads: dict[int, int] = {}

    @property
    def pack_read_bytes(self) -> int:
        """Bytes viewed in the pack, each address counted once, at its largest size."""
        return sum(self._pack_reads.values())

    def declared(self) -> list[Extent]:
        """The arena's bytes that it may touch itself, neighbours in one."""
        return self._readable.extents()

    def check_read(self, extent: Extent) -> None:
        if not self._readable.contains(extent) and not any(table.contains(extent) for table in self._tables):
            raise self._undeclared(f"reads arena [{extent.offset_bytes}, {extent.end_bytes})", self._readable)

    def check_write(self, extent: Extent) -> None:
        if not self._writable.contains(extent):
            raise self._undeclared(f"writes arena [{extent.offset_bytes}, {extent.end_bytes})", self._writable)

    def resolve(self, address: int, size_bytes: int) -> Extent | HostExtent:
        """The bytes at a device address, declared and inside one address space. Raises DeviceError."""
        offset = address - self._description.pack_address
        if self._tables and size_bytes >= 0 and 0 <= offset <= self._description.pack_bytes - size_bytes:
            if offset + size_bytes > self._pinned_pack_bytes:
                raise DeviceError(
                    f"program={self._launch.program} views pack [{offset}, {offset + size_bytes}), of which kernels "
                    f"reach the first {self._pinned_pack_bytes:,} B: the rest is pageable; copy it into a slot first",
                    self._launch,
                )
            self._pack_reads[address] = max(size_bytes, self._pack_reads.get(address, 0))
            return HostExtent(HostSpace.PACK, offset, size_bytes)
        offset = address - self._description.arena_address
        if size_bytes < 0 or not 0 <= offset <= self._description.range_bytes - size_bytes:
            raise self._undeclared(f"views address={address:#x} size_bytes={size_bytes}", self._readable)
        extent = Extent(offset, size_bytes)
        self.check_read(extent)
        return extent

    def _undeclared(self, what: str, declared: Spans) -> DeviceError:
        return DeviceError(
            f"program={self._launch.program} {what}, which its launch does not declare: it declares arena {declared} "
            f"and {len(self._tables)} address tables",
            self._launch,
        )
