"""The twin's judgement of one access: everything that `vram`, `host`, `streams` and `tables` know, asked in one place.

`check_*` raises and changes nothing; `note_*` records what an accepted operation did. A command is checked in full
before any of it is noted, so a refused command leaves the shadow as it was.
"""

from collections.abc import Iterable, Iterator, Sequence

from sim.errors import OrderError
from sim.host import HostShadow
from sim.streams import Clocks, History, Operation
from sim.tables import Readers, Tables
from sim.vram import Vram
from strata.core.commands import Access, CopyPair, Map, TableRead, Transfer, Unmap
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
        self.host = HostShadow(
            pack_bytes=description.pack_bytes, staging_bytes=description.staging_bytes, manifest=manifest
        )
        self._arena = History("arena", description.range_bytes, self.clocks)
        self._staging = History("staging", description.staging_bytes, self.clocks)
        self.tables = Tables(description.range_bytes, self.clocks, self._arena)

    def check_read(self, side: Side, by: Operation) -> None:
        if isinstance(side, HostExtent):
            self.host.check_read(side, by)
            if side.space is HostSpace.STAGING:
                self._staging.check_read(side.offset_bytes, side.end_bytes, by)
            return
        self.vram.check_access(side, by)
        self.vram.check_content(side, by)
        self._arena.check_read(side.extent.offset_bytes, side.extent.end_bytes, by)

    def note_read(self, side: Side, by: Operation) -> None:
        if not isinstance(side, HostExtent):
            self._arena.note_read(side.extent.offset_bytes, side.extent.end_bytes, by)
        elif side.space is HostSpace.STAGING:
            self._staging.note_read(side.offset_bytes, side.end_bytes, by)

    def check_write(self, side: Side, by: Operation) -> None:
        if isinstance(side, HostExtent):
            self.host.check_write(side, by)
            self._staging.check_write(side.offset_bytes, side.end_bytes, by)
            return
        self.vram.check_access(side, by)
        self._check_change(side.extent, by)

    def note_write(self, side: Side, by: Operation, *, is_defined: bool = True, source: Side | None = None) -> None:
        """`is_defined=False`: the write failed on its way, what it left is anything. `source`: what a copy read."""
        if isinstance(side, HostExtent):
            self._staging.note_write(side.offset_bytes, side.end_bytes, by)
            self.host.define(side, is_defined=is_defined)
            return
        self._note_change(side.extent, by)
        if is_defined:
            self.vram.write(side, start_bytes=self._blob_start(side, source))
        else:
            self.vram.poison(side.extent)

    def _blob_start(self, target: Access, source: Side | None) -> int | None:
        """Where the whole of what was copied would begin in the arena (it may be before it)."""
        if not isinstance(source, HostExtent):
            return None
        start = self.host.find_start(source)
        return None if start is None else target.extent.offset_bytes - (source.offset_bytes - start)

    def check_table(self, read: TableRead, by: Operation) -> Readers:
        """All that the version reaches, unless nothing of it changed since the last check for this stream."""
        readers = self.tables.find(read.version, by)
        self.host.check_pack_complete(by)
        if by.actor not in readers.checked:
            for access in readers.accesses:
                self.check_read(access, by)
        return readers

    def check_host_access(self, extent: HostExtent, by: Operation) -> None:
        """The host asks for staging bytes: it may write them, so no stream may still touch them."""
        self.host.check_bounds(extent, by)
        if extent.space is HostSpace.STAGING:
            self._staging.check_write(extent.offset_bytes, extent.end_bytes, by)

    def map(self, command: Map, by: Operation) -> None:
        self.vram.check_map(command, by)
        self._change(command.extent, by)
        self.vram.map(command)

    def unmap(self, command: Unmap, by: Operation) -> None:
        self.vram.check_unmap(command, by)
        self._change(command.extent, by)
        self.vram.unmap(command)

    def transfer(self, command: Transfer, by: Operation) -> None:
        self.vram.check_transfer(command, by)
        self._change(command.extent, by)
        self.vram.transfer(command)

    def _change(self, extent: Extent, by: Operation) -> None:
        self._check_change(extent, by)
        self._note_change(extent, by)

    def _check_change(self, extent: Extent, by: Operation) -> None:
        self._arena.check_write(extent.offset_bytes, extent.end_bytes, by)
        self.tables.check_write(extent, by)

    def _note_change(self, extent: Extent, by: Operation) -> None:
        self._arena.note_write(extent.offset_bytes, extent.end_bytes, by)
        self.tables.note_write(extent)


def check_group(pairs: Iterable[CopyPair], by: Operation) -> None:
    """The copies of one group run in any order, so none may write what another reads or writes."""
    arena: list[tuple[int, int, bool]] = []
    staging: list[tuple[int, int, bool]] = []
    for pair in pairs:
        for side, is_write in ((pair.source, False), (pair.target, True)):
            if isinstance(side, Access):
                arena.append((side.extent.offset_bytes, side.extent.end_bytes, is_write))
            elif side.space is HostSpace.STAGING:
                staging.append((side.offset_bytes, side.end_bytes, is_write))
    for space, sides in (("arena", arena), ("staging", staging)):
        for start, end in _collisions(sides):
            raise OrderError(
                f"{by} refused: two copies of one group meet in {space} [{start}, {end}) and at least one writes "
                "there; issue them as two commands",
                by.command,
            )


def _collisions(sides: list[tuple[int, int, bool]]) -> Iterator[tuple[int, int]]:
    """Where a write of `sides` (start, end, is_write) meets another one of them."""
    read_end = write_end = 0
    for start, end, is_write in sorted(side for side in sides if side[0] < side[1]):
        other_end = max(read_end, write_end) if is_write else write_end
        if start < other_end:
            yield start, min(end, other_end)
        if is_write:
            write_end = max(write_end, end)
        else:
            read_end = max(read_end, end)
