"""The twin's judgement of one access: everything that `vram`, `host`, `streams` and `tables` know, asked in one place.

`check_*` raises and changes nothing; `note_*` records what an accepted operation did. A command is checked in full
before any of it is noted, so a refused command leaves the shadow as it was.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from sim.cells import UNNAMED, Cell, Content, named
from sim.errors import OrderError
from sim.host import WRITABLE, HostShadow
from sim.streams import Clocks, Operation
from sim.tables import Readers, Tables
from sim.vram import Vram
from strata.core.commands import Access, CopyPair, Map, Transfer, Unmap
from strata.core.extent import Extent, HostExtent, HostSpace
from strata.device import DeviceDescription

Side = Access | HostExtent


class Shadow:
    def __init__(self, description: DeviceDescription, manifest: Sequence[tuple[HostExtent, str]]) -> None:
        self.clocks = Clocks()
        self.vram = Vram(
            range_bytes=description.range_bytes,
            segment_bytes=description.segment_bytes,
            num_segments=description.arena_bytes // description.segment_bytes,
        )
        sizes = {
            HostSpace.PACK: description.pack_bytes,
            HostSpace.STAGING: description.staging_bytes,
            HostSpace.PARKED: description.parked_bytes,
        }
        self.host = HostShadow(sizes, manifest)
        self._writable = tuple(self.host.writable.values())
        self.tables = Tables(self.clocks, self.vram.cells)
        self._arena, self._range_bytes = self.vram.cells, description.range_bytes

    def access(
        self,
        by: Operation,
        *,
        reads: Sequence[Side],
        writes: Sequence[Side],
        tables: Sequence[Readers] = (),
        contents: Sequence[Content | None] = (),
    ) -> None:
        """Check all, then note all: a refused command leaves no mark. `tables` are checked already. `contents`: what
        each write leaves, one for each of `writes`; by default what its access names."""
        read_cells, write_cells = self._cut(reads, writes, by)
        clock = self.clocks.of(by.actor)
        if not self._are_plain_reads(reads, read_cells, clock):
            for side, found in zip(reads, read_cells, strict=True):
                self._check_read(found, side, by)
        if not self._are_plain_writes(writes, write_cells, clock):
            for side, found in zip(writes, write_cells, strict=True):
                self._check_write(found, side, by)
        for table in tables:
            self.tables.note_read(table, by)
        for found in read_cells:
            self.clocks.note_read(found, by)
        for found, content in zip(write_cells, contents or map(content_of, writes), strict=True):
            for cell in found:
                cell.write, cell.reads, cell.content = by, (), content
                if cell.readers:
                    self.tables.note_write(cell)
        # Only now: two writes of one command may meet, and what has melted is no cell of the second any more.
        for side, found in zip(writes, write_cells, strict=True):
            if len(found) > 1:
                self._melt(side)

    def check_read(self, side: Side, by: Operation) -> None:
        self._check_read(self._cells(side, by), side, by)

    def check_table(self, version: int, by: Operation) -> Readers:
        """All that the version reaches, unless nothing of it changed since the last check for this stream."""
        readers = self.tables.find(version, by)
        self.host.check_pack_complete(by)
        if by.actor not in readers.checked:
            for access in readers.accesses:
                self.check_read(access, by)
        return readers

    def host_access(self, extent: HostExtent, by: Operation) -> None:
        """The host asks for these bytes. But for the pack it may write them, so no stream may still touch them."""
        cells = self.host.cut(extent, by)
        self.clocks.check_write(cells, extent, by)
        self._note_write(cells, by)
        for cell in cells:
            cell.content = UNNAMED
        if len(cells) > 1:
            self._melt(extent)

    def spoil(self, writes: Sequence[Side], by: Operation) -> None:
        """The writes failed on their way: what they left is anything."""
        self.access(by, reads=(), writes=writes, contents=[None] * len(writes))

    def map(self, command: Map, by: Operation) -> None:
        self.vram.check_map(command, by)
        self._change(command.extent, by)
        self.vram.map(command)

    def unmap(self, command: Unmap, by: Operation) -> None:
        self.vram.check_unmap(command, by)
        cells = self._change(command.extent, by)
        self.vram.unmap(command, cells)
        self._melt(command.extent)

    def transfer(self, command: Transfer, by: Operation) -> None:
        self.vram.check_transfer(command, by)
        cells = self._change(command.extent, by)
        self.vram.transfer(command, cells)
        self._melt(command.extent)

    def _change(self, extent: Extent, by: Operation) -> list[Cell]:
        """The host changes what the bytes are, whatever lies in them: as a write, but by no owner."""
        cells = self.vram.cut(extent, by)
        self.clocks.check_write(cells, extent, by)
        self.tables.check_write(cells, extent, by)
        self._note_write(cells, by)
        return cells

    def _cut(
        self, reads: Sequence[Side], writes: Sequence[Side], by: Operation
    ) -> tuple[list[list[Cell]], list[list[Cell]]]:
        """The cells of each side, none of which is cut by another one's."""
        before, cells, at = self._num_cuts(), self._cells, self._arena.at
        found: list[list[Cell]] = []
        for side in (*reads, *writes):
            cell = at.get(side.extent.offset_bytes) if isinstance(side, Access) else None
            if cell is not None and cell.end - cell.start == side.extent.size_bytes:  # type: ignore[union-attr]
                found.append([cell])
            else:
                found.append(cells(side, by))
        if self._num_cuts() != before:
            found = [cells(side, by) for side in (*reads, *writes)]
        return found[: len(reads)], found[len(reads) :]

    def _num_cuts(self) -> int:
        staging, parked = self._writable
        return self.vram.cells.num_cuts + staging.num_cuts + parked.num_cuts

    def _cells(self, side: Side, by: Operation) -> list[Cell]:
        if isinstance(side, HostExtent):
            return self.host.cut(side, by)
        extent = side.extent
        start = extent.offset_bytes
        end = start + extent.size_bytes
        return self._arena.cut(start, end) if end <= self._range_bytes else self.vram.cut(extent, by)

    def _are_plain_reads(self, sides: Sequence[Side], cells: list[list[Cell]], clock: list[int]) -> bool:
        """What nearly all reads are, at one glance: of one cell each, and nothing in them that a check could refuse.
        What is not plain is checked in full, which says what is wrong, if anything is."""
        for side, found in zip(sides, cells, strict=True):
            if len(found) != 1 or not isinstance(side, Access):
                return False
            write, content, expected = found[0].write, found[0].content, side.content
            if content is None or not (expected is None or content.name is None or content.name == expected):
                return False
            if write is not None and write.tick > clock[write.actor]:
                return False
            if not self.vram.is_held(found[0], side):
                return False
        return True

    def _are_plain_writes(self, sides: Sequence[Side], cells: list[list[Cell]], clock: list[int]) -> bool:
        """As `_are_plain_reads`; nobody has read them through a table."""
        for side, found in zip(sides, cells, strict=True):
            if len(found) != 1 or not isinstance(side, Access) or found[0].readers:
                return False
            write = found[0].write
            if write is not None and write.tick > clock[write.actor]:
                return False
            for read in found[0].reads:
                if read.tick > clock[read.actor]:
                    return False
            if not self.vram.is_held(found[0], side):
                return False
        return True

    def _check_read(self, cells: list[Cell], side: Side, by: Operation) -> None:
        if isinstance(side, Access):
            self.vram.check_access(cells, side, by)
            self.vram.check_content(cells, side, by)
        else:
            self.host.check_read(cells, side, by)
        self.clocks.check_read(cells, side, by)

    def _check_write(self, cells: list[Cell], side: Side, by: Operation) -> None:
        if isinstance(side, Access):
            self.vram.check_access(cells, side, by)
            self.tables.check_write(cells, side.extent, by)
        else:
            self.host.check_write(side, by)
        self.clocks.check_write(cells, side, by)

    def _note_write(self, cells: list[Cell], by: Operation) -> None:
        for cell in cells:
            cell.write = by
            cell.reads = ()
            if cell.readers:
                self.tables.note_write(cell)

    def _melt(self, side: Side | Extent) -> None:
        extent = side.extent if isinstance(side, Access) else side
        space = self.host.writable[extent.space] if isinstance(extent, HostExtent) else self.vram.cells
        space.melt(extent.offset_bytes, extent.end_bytes)


def content_of(side: Side) -> Content:
    return UNNAMED if isinstance(side, HostExtent) or side.content is None else named(side.content)


def check_group(pairs: Iterable[CopyPair], by: Operation) -> None:
    """The copies of one group run in any order, so none may write what another reads or writes."""
    touched: dict[str, list[tuple[int, int, bool]]] = {"arena": [], **{space: [] for space in WRITABLE}}
    for pair in pairs:
        for side, is_write in ((pair.source, False), (pair.target, True)):
            if isinstance(side, Access):
                touched["arena"].append((side.extent.offset_bytes, side.extent.end_bytes, is_write))
            elif side.space in touched:
                touched[side.space].append((side.offset_bytes, side.end_bytes, is_write))
    for space, sides in touched.items():
        for start, end in _collisions(sides):
            raise OrderError(
                f"{by} refused: two copies of one group meet in {space} [{start}, {end}) and at least one writes "
                "there; issue them as two commands",
                by.command,
            )


def _collisions(sides: list[tuple[int, int, bool]]) -> Iterator[tuple[int, int]]:
    """Where a write of `sides` (start, end, is_write) meets another one of them."""
    ordered = sorted([side for side in sides if side[0] < side[1]])
    if all(left[1] <= right[0] for left, right in pairwise(ordered)):
        return
    read_end = write_end = 0
    for start, end, is_write in ordered:
        other_end = max(read_end, write_end) if is_write else write_end
        if start < other_end:
            yield start, min(end, other_end)
        if is_write:
            write_end = max(write_end, end)
        else:
            read_end = max(read_end, end)
