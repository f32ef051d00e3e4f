"""The card's memory as facts about bytes: what backs them, who owns them, what lies in them.

Three byte-exact facts of every address:

    mapping     segment by segment: physical segment and map epoch, or nothing
    ownership   owner ("" is nobody) and generation, which counts the transfers of the byte
    content     undefined (since the last map, unmap or transfer not in place), or written, perhaps under a name

Every check raises before anything changes. Order between streams is not decided here (`streams.py`). Ownership
belongs to addresses, so it outlives unmapping; but only mapped bytes can be accessed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from sim.cells import NOBODY, Cell, Cells, Content
from sim.errors import ContentMismatch, MappingError, OutOfBounds, OutOfMemory, OwnershipError, UndefinedRead
from sim.streams import Operation
from strata.core.commands import Access, Map, Transfer, Unmap
from strata.core.extent import Extent

OwnerRow = tuple[int, int, str]
"""Start, end, owner."""


@dataclass(slots=True, eq=False)
class Mapping:
    segment_index: int
    map_epoch: int  # counts the maps of this card, from 1


class Vram:
    """One card's addresses. `num_segments` is the physical budget, `range_bytes` is reserved and may be more."""

    def __init__(self, *, range_bytes: int, segment_bytes: int, num_segments: int) -> None:
        assert range_bytes % segment_bytes == 0, (range_bytes, segment_bytes)
        self.range_bytes = range_bytes
        self.segment_bytes = segment_bytes
        self.num_segments = num_segments
        self.num_maps = 0
        self.mappings: list[Mapping | None] = [None] * (range_bytes // segment_bytes)
        self._homes: dict[int, Extent] = {}
        self.num_changes = 0  # maps, unmaps and transfers: whoever keeps a view of them can see that it is old
        self.cells = Cells(range_bytes)
        self._owners: tuple[OwnerRow, ...] = ()
        self._owners_at = -1  # changes when `_owners` was made

    @property
    def mapped_bytes(self) -> int:
        return len(self._homes) * self.segment_bytes

    def cut(self, extent: Extent, by: Operation) -> list[Cell]:
        """The cells of `extent`; raises when it leaves the reserved range."""
        start = extent.offset_bytes
        end = start + extent.size_bytes
        if end > self.range_bytes:
            self._check_bounds(extent, by)
        return self.cells.cut(start, end)

    def check_access(self, cells: list[Cell], access: Access, by: Operation) -> None:
        """Every byte is mapped and belongs to `access.owner`, who is somebody. `cells` are those of the extent."""
        self.check_mapped(access.extent, by)
        owner = access.owner
        for cell in cells:
            if cell.owner != owner:
                self.refuse_owner(cell, access.extent, owner, by)
        if owner == NOBODY:
            raise OwnershipError(
                f"{by} refused: access without an owner to {_bytes(access.extent)}; name who touches them", by.command
            )

    def is_held(self, cell: Cell, access: Access) -> bool:
        """Whether `check_access` has nothing to say of an access to that cell, the whole of it."""
        if cell.owner != access.owner or cell.owner == NOBODY:
            return False
        if cell.mapped_at != self.num_changes:
            if None in self.mappings[cell.start // self.segment_bytes : (cell.end - 1) // self.segment_bytes + 1]:
                return False
            cell.mapped_at = self.num_changes
        return True

    def check_mapped(self, extent: Extent, by: Operation) -> None:
        start, size = extent.offset_bytes, extent.size_bytes
        if not size:
            return
        first, last = start // self.segment_bytes, (start + size - 1) // self.segment_bytes
        if None in self.mappings[first : last + 1]:
            place = self.mappings.index(None, first)
            hole = Extent(place * self.segment_bytes, self.segment_bytes)
            raise MappingError(
                f"{by} refused: {_bytes(extent)} touches {_bytes(hole)}, which no segment backs; "
                f"map it first. {self.describe_around(extent)}",
                by.command,
            )

    def refuse_owner(self, cell: Cell, extent: Extent, owner: str, by: Operation) -> None:
        start, end = self._run_around(cell, extent)
        raise OwnershipError(
            f"{by} refused: {_bytes(extent)} expected owner={owner!r}, but [{start}, {end}) has "
            f"owner={cell.owner!r} generation={cell.generation}. {self.describe_around(extent)}",
            by.command,
        )

    def check_content(self, cells: list[Cell], access: Access, by: Operation) -> None:
        """Every byte was written since its last poison, and holds what the reader expects, where both say what."""
        expected, blob_start = access.content, None
        for cell in cells:
            found = cell.content
            if found is None:
                raise UndefinedRead(
                    f"{by} refused: reads {_bytes(access.extent)} of owner={access.owner!r}, but [{cell.start}, "
                    f"{cell.end}) was not written since it was last mapped or passed on. "
                    f"{self.describe_around(access.extent)}",
                    by.command,
                )
            if expected is None or found.name is None:
                continue
            if found.name != expected:
                self._refuse_content(cell, access, f"holds content={found.name!r}", by)
            if found.start_bytes is not None:
                if blob_start is not None and found.start_bytes != blob_start:
                    whole = f"is not where the rest of it would have it: whole at {found.start_bytes}, not {blob_start}"
                    self._refuse_content(cell, access, whole, by)
                blob_start = found.start_bytes

    def _refuse_content(self, cell: Cell, access: Access, what: str, by: Operation) -> None:
        raise ContentMismatch(
            f"{by} refused: reads {_bytes(access.extent)} expecting content={access.content!r}, but [{cell.start}, "
            f"{cell.end}) {what}. {self.describe_around(access.extent)}",
            by.command,
        )

    def check_map(self, command: Map, by: Operation) -> None:
        extent = command.extent
        self._check_segment(extent, by)
        if not 0 <= command.segment_index < self.num_segments:
            raise OutOfMemory(
                f"{by} refused: segment_index={command.segment_index}, the card has {self.num_segments} segments of "
                f"{self.segment_bytes:,} B; unmap one and use it again",
                command,
            )
        if command.segment_index in self._homes:
            raise MappingError(
                f"{by} refused: segment_index={command.segment_index} already backs "
                f"{_bytes(self._homes[command.segment_index])}; unmap it there first",
                command,
            )
        found = self.mappings[extent.offset_bytes // self.segment_bytes]
        if found is not None:
            raise MappingError(
                f"{by} refused: {_bytes(extent)} is already backed by segment_index={found.segment_index}; "
                f"unmap it first. {self.describe_around(extent)}",
                command,
            )

    def map(self, command: Map) -> None:
        self.num_maps += 1
        self.num_changes += 1
        place = command.extent.offset_bytes // self.segment_bytes
        self.mappings[place] = Mapping(command.segment_index, self.num_maps)
        self._homes[command.segment_index] = command.extent

    def check_unmap(self, command: Unmap, by: Operation) -> None:
        self._check_segment(command.extent, by)
        self.check_mapped(command.extent, by)

    def unmap(self, command: Unmap, cells: list[Cell]) -> None:
        place = command.extent.offset_bytes // self.segment_bytes
        mapping = self.mappings[place]
        assert mapping is not None
        self.mappings[place] = None
        del self._homes[mapping.segment_index]
        self.num_changes += 1
        poison(cells)  # so whatever is mapped here next starts undefined too

    def check_transfer(self, command: Transfer, by: Operation) -> None:
        for cell in self.cut(command.extent, by):
            if cell.owner != command.giver:
                self.refuse_owner(cell, command.extent, command.giver, by)
        if command.giver == command.taker:
            raise OwnershipError(f"{by} refused: giver and taker are both {command.giver!r}", command)

    def transfer(self, command: Transfer, cells: list[Cell]) -> None:
        self.num_changes += 1
        for cell in cells:
            cell.owner = command.taker
            cell.generation += 1
        if not command.in_place:
            poison(cells)

    def backing(self, extent: Extent) -> tuple[Mapping | None, ...]:
        """What backs each segment that `extent` meets, in address order."""
        places = self.segments(extent)
        return tuple(self.mappings[places.start : places.stop])

    def owners(self) -> tuple[OwnerRow, ...]:
        """`owner_rows` of the whole range."""
        if self._owners_at != self.num_changes:
            self._owners = self.owner_rows(Extent(0, self.range_bytes))
            self._owners_at = self.num_changes
        return self._owners

    def owner_rows(self, extent: Extent) -> tuple[OwnerRow, ...]:
        """(start, end, owner) of each run in `extent`, whatever the generations."""
        rows: list[OwnerRow] = []
        since, end_bytes = extent.offset_bytes, extent.end_bytes
        owner: str | None = None
        for cell in self.cells.met(extent.offset_bytes, end_bytes):
            if cell.owner != owner:
                if owner is not None:
                    rows.append((since, cell.start, owner))
                    since = cell.start
                owner = cell.owner
        if owner is not None:
            rows.append((since, end_bytes, owner))
        return tuple(rows)

    def content_rows(self, extent: Extent) -> tuple[tuple[int, int, Content | None], ...]:
        """(start, end, content) of each run in `extent`, None for what is undefined."""
        rows: list[tuple[int, int, Content | None]] = []
        first, behind = extent.offset_bytes, extent.end_bytes
        for cell in self.cells.met(first, behind):
            content, start = cell.content, max(first, cell.start)
            if rows and (rows[-1][2] is content or rows[-1][2] == content):
                start = rows.pop()[0]
            rows.append((start, min(behind, cell.end), content))
        return tuple(rows)

    def mapped_parts(self, extent: Extent) -> Iterator[Extent]:
        """The pieces of `extent` that are backed, in address order."""
        places = self.segments(extent)
        if None not in self.mappings[places.start : places.stop]:
            yield extent
            return
        for is_hole, run in groupby(places, key=lambda place: self.mappings[place] is None):
            if not is_hole:
                first, *rest = run
                start = max(extent.offset_bytes, first * self.segment_bytes)
                end = min(extent.end_bytes, (first + len(rest) + 1) * self.segment_bytes)
                yield Extent(start, end - start)

    def describe_around(self, extent: Extent) -> str:
        """The map of owners and segments from one segment before `extent` to one behind it, at most eight rows."""
        start = max(0, extent.offset_bytes - self.segment_bytes)
        end = min(self.range_bytes, extent.end_bytes + self.segment_bytes)
        rows = [f"[{a}, {b}) owner={o!r}/{n}" for a, b, o, n in self._generation_rows(start, end)]
        near = Extent(start, max(0, end - start))
        backs = ["-" if m is None else str(m.segment_index) for m in self.backing(near)]
        cut = "" if len(rows) <= 8 and len(backs) <= 8 else " ..."
        return f"Map around it: {', '.join(rows[:8])}; segments {' '.join(backs[:8])}{cut}"

    def _generation_rows(self, start: int, end: int) -> list[tuple[int, int, str, int]]:
        """(start, end, owner, generation) of each run that meets [start, end)."""
        rows: list[tuple[int, int, str, int]] = []
        for at, until, cell in self.cells.meeting(start, end):
            if rows and rows[-1][2:] == (cell.owner, cell.generation):
                at = rows.pop()[0]
            rows.append((at, until, cell.owner, cell.generation))
        return rows

    def _run_around(self, cell: Cell, extent: Extent) -> tuple[int, int]:
        """The bytes of `extent` around `cell` that have its owner."""
        rows = self._generation_rows(extent.offset_bytes, extent.end_bytes)
        return next((start, end) for start, end, _, _ in rows if start <= cell.start < end)

    def segments(self, extent: Extent) -> range:
        """The places that `extent` meets."""
        if not extent.size_bytes:
            return range(0)
        return range(extent.offset_bytes // self.segment_bytes, (extent.end_bytes - 1) // self.segment_bytes + 1)

    def _check_bounds(self, extent: Extent, by: Operation) -> None:
        if extent.end_bytes > self.range_bytes:
            raise OutOfBounds(
                f"{by} refused: {_bytes(extent)} ends beyond the reserved range of {self.range_bytes:,} B", by.command
            )

    def _check_segment(self, extent: Extent, by: Operation) -> None:
        self._check_bounds(extent, by)
        if extent.offset_bytes % self.segment_bytes or extent.size_bytes != self.segment_bytes:
            raise MappingError(
                f"{by} refused: {_bytes(extent)} is not one segment on the grid of {self.segment_bytes:,} B", by.command
            )


def poison(cells: list[Cell]) -> None:
    """What lies there is undefined from now on."""
    for cell in cells:
        cell.content = None


def _bytes(extent: Extent) -> str:
    return f"arena [{extent.offset_bytes}, {extent.end_bytes})"
