"""The twin's judgement of one access: everything that `vram`, `host`, `streams` and `tables` know, asked in one place.

`check_*` raises and changes nothing; `note_*` records what an accepted operation did. A command is checked in full
before any of it is noted, so a refused command leaves the shadow as it was.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from sim.cells import UNNAMED, Cell, Content, named
from sim.errors import OrderError
from sim.host import HostShadow
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
        self._num_cut = 0  # sides that were no cells before they were asked for

    def access(
        self,
        by: Operation,
        *,
        reads: Sequence[Side],
        writes: Sequence[Side],
        contents: Sequence[Content | None],
        tables: Sequence[Readers] = (),
        group: Sequence[CopyPair] = (),
    ) -> None:
        """Check all, then note all: a refused command leaves no mark. `tables` are checked already. `contents`: what
        each write leaves, one for each of `writes`. `group`: the copies that all of it is, in any order."""
        clock, num_cut = self.clocks.of(by.actor), self._num_cut
        read_cells, write_cells = self._plain_reads(reads, clock), self._plain_writes(writes, clock)
        if self._num_cut != num_cut:  # what was found first may have been cut since
            read_cells, write_cells = self._plain_reads(reads, clock), self._plain_writes(writes, clock)
        if read_cells is None or write_cells is None or (group and _do_meet(read_cells, write_cells)):
            if group:
                check_group(group, by)
            self._access_in_full(by, reads, writes, contents, tables)
            return
        for table in tables:
            self.tables.note_read(table, by)
        self.clocks.note_read(read_cells, by)
        self._note_write(write_cells, by, contents)

    def _access_in_full(
        self,
        by: Operation,
        reads: Sequence[Side],
        writes: Sequence[Side],
        contents: Sequence[Content | None],
        tables: Sequence[Readers],
    ) -> None:
        read_cells, write_cells = self._cut(reads, writes, by)
        for side, found in zip(reads, read_cells, strict=True):
            self._check_read(found, side, by)
        for side, found in zip(writes, write_cells, strict=True):
            self._check_write(found, side, by)
        for table in tables:
            self.tables.note_read(table, by)
        for found in read_cells:
            self.clocks.note_read(found, by)
        for found, content in zip(write_cells, contents, strict=True):
            self._note_write(found, by, [content] * len(found))
        # Only now: two writes of one command may meet, and what has melted is no cell of the second any more.
        for side, found in zip(writes, write_cells, strict=True):
            if len(found) > 1:
                self._melt(side)

    def check_read(self, side: Side, by: Operation) -> None:
        if self._plain_reads((side,), self.clocks.of(by.actor)) is None:
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
        self._note_write(cells, by, [UNNAMED] * len(cells))
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
        self._note_write(cells, by, [cell.content for cell in cells])
        return cells

    def _cut(
        self, reads: Sequence[Side], writes: Sequence[Side], by: Operation
    ) -> tuple[list[list[Cell]], list[list[Cell]]]:
        """The cells of each side, none of which is cut by another one's."""
        before, sides = self._num_cuts(), (*reads, *writes)
        found = [self._cells(side, by) for side in sides]
        if self._num_cuts() != before:
            found = [self._cells(side, by) for side in sides]
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

    def _plain_reads(self, sides: Sequence[Side], clock: list[int]) -> list[Cell] | None:
        """The cells of what nearly all reads are, at one glance: each of one cell, and nothing in them that a check
        could refuse. None where one is not so: those are checked in full, which says what is wrong, if anything is."""
        found: list[Cell] = []
        for side in sides:
            if isinstance(side, HostExtent) and self.host.is_plain_master(side):
                continue
            cell, expected = self._cell(side), side.content if isinstance(side, Access) else None
            if cell is None or (content := cell.content) is None:
                return None
            if expected is not None and content.name != expected and content.name is not None:
                return None
            write = cell.write
            if write is not None and write.tick > clock[write.actor]:
                return None
            found.append(cell)
        return found

    def _plain_writes(self, sides: Sequence[Side], clock: list[int]) -> list[Cell] | None:
        """As `_plain_reads`; nobody has read them through a table."""
        found: list[Cell] = []
        for side in sides:
            cell = self._cell(side)
            if cell is None or cell.readers:
                return None
            write = cell.write
            if write is not None and write.tick > clock[write.actor]:
                return None
            for read in cell.reads:
                if read.tick > clock[read.actor]:
                    return None
            found.append(cell)
        return found

    def _cell(self, side: Side) -> Cell | None:
        """Of all bytes of a side at once, where they are the owner's and the same is known of all of them."""
        if isinstance(side, HostExtent):
            space, start, size_bytes = self.host.writable.get(side.space), side.offset_bytes, side.size_bytes
        else:
            space, start, size_bytes = self._arena, side.extent.offset_bytes, side.extent.size_bytes
        if space is None:  # the pack's, which commands do not change
            return None
        cell, end = space.at.get(start), start + size_bytes
        if cell is None or cell.end != end:
            if not start < end <= space.size_bytes:
                return None
            self._num_cut += 1
            cell, *others = space.cut(start, end)
            if others:
                return None
        return cell if isinstance(side, HostExtent) or self.vram.is_held(cell, side) else None

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

    def _note_write(self, cells: list[Cell], by: Operation, contents: Sequence[Content | None]) -> None:
        for cell, content in zip(cells, contents, strict=True):
            cell.write, cell.reads, cell.content = by, (), content
            if cell.readers:
                self.tables.note_write(cell)

    def _melt(self, side: Side | Extent) -> None:
        extent = side.extent if isinstance(side, Access) else side
        space = self.host.writable[extent.space] if isinstance(extent, HostExtent) else self.vram.cells
        space.melt(extent.offset_bytes, extent.end_bytes)


def content_of(side: Side) -> Content:
    return UNNAMED if isinstance(side, HostExtent) or side.content is None else named(side.content)


def _do_meet(reads: list[Cell], writes: list[Cell]) -> bool:
    """Whether anything is written that is written twice, or read too."""
    written = set(writes)
    return len(written) < len(writes) or not written.isdisjoint(reads)


def check_group(pairs: Iterable[CopyPair], by: Operation) -> None:
    """The copies of one group run in any order, so none may write what another reads or writes."""
    touched: dict[str, list[tuple[int, int, bool]]] = {}
    for pair in pairs:
        for side, is_write in ((pair.source, False), (pair.target, True)):
            space, extent = ("arena", side.extent) if isinstance(side, Access) else (side.space, side)
            if space is not HostSpace.PACK:
                start = extent.offset_bytes
                touched.setdefault(space, []).append((start, start + extent.size_bytes, is_write))
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
