"""Host memory as facts about bytes: the pack, immutable once sealed, and what commands write, staging and parked.

The latter two count as undefined until the host asked for them (`SimDevice.host`) or a command wrote them. What the
pack holds may be told by a manifest made from the model file: then a copy that takes the wrong blob is caught by name,
although the core's own tables agree with it. What lies in parked memory has the name under which it left the card, so
that K of one layer never comes back as V of another.
"""

from collections.abc import Mapping, Sequence

from sim.cells import Cell, Cells
from sim.errors import ContentMismatch, OutOfBounds, PackError, UndefinedRead
from sim.interval import IntervalMap
from sim.streams import Operation
from strata.core.extent import HostExtent, HostSpace

WRITABLE = (HostSpace.STAGING, HostSpace.PARKED)
"""What commands may write."""


class HostShadow:
    def __init__(self, sizes: Mapping[HostSpace, int], manifest: Sequence[tuple[HostExtent, str]]) -> None:
        self._sizes = sizes
        self._names: IntervalMap[str | None] = IntervalMap(sizes[HostSpace.PACK], None)
        for extent, name in manifest:
            assert extent.space is HostSpace.PACK, extent
            self._names.assign(extent.offset_bytes, extent.end_bytes, name)
        self._found_names: dict[tuple[int, int], list[tuple[int, str | None]]] = {}
        self.writable = {space: Cells(sizes[space]) for space in WRITABLE}
        self.is_sealed = False

    def cut(self, extent: HostExtent, by: Operation) -> list[Cell]:
        """The cells there; of the pack none, since nobody changes it. Raises when `extent` leaves its space."""
        start = extent.offset_bytes
        end = start + extent.size_bytes
        if end > self._sizes[extent.space]:
            raise OutOfBounds(
                f"{by} refused: {describe(extent)} ends beyond its {self._sizes[extent.space]:,} B", by.command
            )
        return [] if extent.space is HostSpace.PACK else self.writable[extent.space].cut(start, end)

    def is_plain_master(self, extent: HostExtent) -> bool:
        """Whether nothing is to be said of a read of it: of the pack, which nobody changes any more."""
        is_master = extent.space is HostSpace.PACK and self.is_sealed
        return is_master and extent.offset_bytes + extent.size_bytes <= self._sizes[HostSpace.PACK]

    def check_read(self, cells: list[Cell], extent: HostExtent, by: Operation) -> None:
        if extent.space is HostSpace.PACK:
            self.check_pack_complete(by)
        for cell in cells:
            if cell.content is None:
                raise UndefinedRead(f"{by} refused: reads {describe(extent)}, where nobody has written yet", by.command)

    def check_pack_complete(self, by: Operation) -> None:
        if not self.is_sealed:
            raise PackError(f"{by} refused: reads the pack before seal(); the host may still write it", by.command)

    def check_write(self, extent: HostExtent, by: Operation) -> None:
        if extent.space is HostSpace.PACK:
            raise PackError(f"{by} refused: writes {describe(extent)}; no command may change the master", by.command)

    def end_of(self, pack_offset: int) -> int:
        """Of what the manifest names at that place of the pack."""
        return self._names.end_of(pack_offset)

    def check_name(self, extent: HostExtent, content: str | None, by: Operation) -> int | None:
        """A copy out of host memory leaves `content` on the card: is that what is known to lie here? Gives where the
        whole of it begins in the pack, None where the manifest has no name."""
        if extent.space is HostSpace.PARKED:
            self._check_parked_name(extent, content, by)
        if extent.space is not HostSpace.PACK:
            return None
        whole_start: int | None = None
        for start, name in self._names_in(extent):
            if name is not None and content is not None and name != content:
                raise ContentMismatch(
                    f"{by} refused: reads {describe(extent)} and says content={content!r}, but what begins at "
                    f"{start} there is {name!r}",
                    by.command,
                )
            if name is not None and whole_start is None:
                whole_start = start
        return whole_start

    def _names_in(self, extent: HostExtent) -> list[tuple[int, str | None]]:
        """Of the pack, whose names never change: the same pieces of it are copied again and again."""
        key = extent.offset_bytes, extent.size_bytes
        if key not in self._found_names:
            self._found_names[key] = list(self._names.whole_runs(extent.offset_bytes, extent.end_bytes))
        return self._found_names[key]

    def _check_parked_name(self, extent: HostExtent, content: str | None, by: Operation) -> None:
        for start, end, cell in self.writable[extent.space].meeting(extent.offset_bytes, extent.end_bytes):
            name = None if cell.content is None else cell.content.name
            if None not in (name, content) and name != content:
                raise ContentMismatch(
                    f"{by} refused: reads {describe(extent)} and says content={content!r}, but [{start}, {end}) left "
                    f"the card as {name!r}",
                    by.command,
                )


def describe(extent: HostExtent) -> str:
    return f"{extent.space} [{extent.offset_bytes}, {extent.end_bytes})"
