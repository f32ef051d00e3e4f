"""The card's memory as facts about bytes: what backs them, who owns them, what lies in them.

Three byte-exact layers over the home addresses, each with its own runs:

    mapping     segment by segment: physical segment and map epoch, or nothing
    ownership   owner ("" is nobody) and generation, which counts the transfers of the byte
    content     undefined (since the last map, unmap or transfer not in place), or written, perhaps under a name

Every check raises before anything changes. Order between streams is not decided here (`streams.py`). Ownership
belongs to addresses, so it outlives unmapping; but only mapped bytes can be accessed.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from sim.errors import ContentMismatch, MappingError, OutOfBounds, OutOfMemory, OwnershipError, UndefinedRead
from sim.interval import IntervalMap
from sim.streams import Operation
from strata.core.commands import Access, Map, Transfer, Unmap
from strata.core.extent import Extent

NOBODY = ""
OwnerRow = tuple[int, int, str]
"""Start, end, owner."""


@dataclass(frozen=True, slots=True)
class Mapping:
    segment_index: int
    map_epoch: int  # counts the maps of this card, from 1


@dataclass(frozen=True, slots=True)
class Ownership:
    owner: str
    generation: int


@dataclass(frozen=True, slots=True)
class Content:
    """Defined bytes; `name` is None where the writer gave none. `start_bytes`: the address at which the whole of what
    is named would begin, None where that is not known: pieces of one blob belong together only if they agree on it."""

    name: str | None
    start_bytes: int | None = None


class Vram:
    """One card's addresses. `num_segments` is the physical budget, `range_bytes` is reserved and may be more."""

    def __init__(self, *, range_bytes: int, segment_bytes: int, num_segments: int) -> None:
        assert range_bytes % segment_bytes == 0, (range_bytes, segment_bytes)
        self.range_bytes = range_bytes
        self.segment_bytes = segment_bytes
        self.num_segments = num_segments
        self.num_maps = 0
        self._mappings: list[Mapping | None] = [None] * (range_bytes // segment_bytes)
        self._homes: dict[int, Extent] = {}
        self._owners = IntervalMap(range_bytes, Ownership(NOBODY, 0))
        self._contents: IntervalMap[Content | None] = IntervalMap(range_bytes, None)

    @property
    def mapped_bytes(self) -> int:
        return len(self._homes) * self.segment_bytes

    def check_access(self, access: Access, by: Operation) -> None:
        """Every byte is mapped and belongs to `access.owner`, who is somebody."""
        self.check_mapped(access.extent, by)
        self.check_owner(access.extent, access.owner, by)
        if access.owner == NOBODY:
            raise OwnershipError(
                f"{by} refused: access without an owner to {_bytes(access.extent)}; name who touches them", by.command
            )

    def check_mapped(self, extent: Extent, by: Operation) -> None:
        self._check_bounds(extent, by)
        for place in self._segments(extent):
            if self._mappings[place] is None:
                hole = Extent(place * self.segment_bytes, self.segment_bytes)
                raise MappingError(
                    f"{by} refused: {_bytes(extent)} touches {_bytes(hole)}, which no segment backs; "
                    f"map it first. {self.describe_around(extent)}",
                    by.command,
                )

    def check_owner(self, extent: Extent, owner: str, by: Operation) -> None:
        self._check_bounds(extent, by)
        if all(found.owner == owner for found in self._owners.values(extent.offset_bytes, extent.end_bytes)):
            return
        for start, end, found in self._owners.runs(extent.offset_bytes, extent.end_bytes):
            if found.owner != owner:
                raise OwnershipError(
                    f"{by} refused: {_bytes(extent)} expected owner={owner!r}, but [{start}, {end}) has "
                    f"owner={found.owner!r} generation={found.generation}. {self.describe_around(extent)}",
                    by.command,
                )

    def check_content(self, access: Access, by: Operation) -> None:
        """Every byte was written since its last poison, and holds what the reader expects, where both say what."""
        extent, blob_start = access.extent, None
        for start, end, found in self._contents.runs(extent.offset_bytes, extent.end_bytes):
            if found is None:
                raise UndefinedRead(
                    f"{by} refused: reads {_bytes(extent)} of owner={access.owner!r}, but [{start}, {end}) was not "
                    f"written since it was last mapped or passed on. {self.describe_around(extent)}",
                    by.command,
                )
            if found.name is not None and access.content is not None and found.name != access.content:
                raise ContentMismatch(
                    f"{by} refused: reads {_bytes(extent)} expecting content={access.content!r}, but [{start}, {end}) "
                    f"holds content={found.name!r}. {self.describe_around(extent)}",
                    by.command,
                )
            if found.start_bytes is None or access.content is None:
                continue
            if blob_start is not None and found.start_bytes != blob_start:
                raise ContentMismatch(
                    f"{by} refused: reads {_bytes(extent)} expecting content={access.content!r}, but the piece in "
                    f"[{start}, {end}) is not where the rest of it would have it: it starts the whole at "
                    f"{found.start_bytes}, the rest at {blob_start}. {self.describe_around(extent)}",
                    by.command,
                )
            blob_start = found.start_bytes

    def write(self, access: Access, *, start_bytes: int | None = None) -> None:
        """`start_bytes`: see `Content`."""
        content = Content(access.content, start_bytes)
        self._contents.assign(access.extent.offset_bytes, access.extent.end_bytes, content)

    def poison(self, extent: Extent) -> None:
        """What lies there is undefined from now on."""
        self._contents.assign(extent.offset_bytes, extent.end_bytes, None)

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
        found = self._mappings[extent.offset_bytes // self.segment_bytes]
        if found is not None:
            raise MappingError(
                f"{by} refused: {_bytes(extent)} is already backed by segment_index={found.segment_index}; "
                f"unmap it first. {self.describe_around(extent)}",
                command,
            )

    def map(self, command: Map) -> None:
        self.num_maps += 1
        place = command.extent.offset_bytes // self.segment_bytes
        self._mappings[place] = Mapping(command.segment_index, self.num_maps)
        self._homes[command.segment_index] = command.extent

    def check_unmap(self, command: Unmap, by: Operation) -> None:
        self._check_segment(command.extent, by)
        self.check_mapped(command.extent, by)

    def unmap(self, command: Unmap) -> None:
        place = command.extent.offset_bytes // self.segment_bytes
        mapping = self._mappings[place]
        assert mapping is not None
        self._mappings[place] = None
        del self._homes[mapping.segment_index]
        self.poison(command.extent)  # so whatever is mapped here next starts undefined too

    def check_transfer(self, command: Transfer, by: Operation) -> None:
        self.check_owner(command.extent, command.giver, by)
        if command.giver == command.taker:
            raise OwnershipError(f"{by} refused: giver and taker are both {command.giver!r}", command)

    def transfer(self, command: Transfer) -> None:
        start, end, taker = command.extent.offset_bytes, command.extent.end_bytes, command.taker
        self._owners.update(start, end, lambda found: Ownership(taker, found.generation + 1))
        if not command.in_place:
            self.poison(command.extent)

    def backing(self, extent: Extent) -> tuple[Mapping | None, ...]:
        """What backs each segment that `extent` meets, in address order."""
        return tuple(self._mappings[place] for place in self._segments(extent))

    def owner_rows(self, extent: Extent) -> tuple[OwnerRow, ...]:
        """(start, end, owner) of each run in `extent`, whatever the generations."""
        rows: list[OwnerRow] = []
        for start, end, found in self._owners.runs(extent.offset_bytes, extent.end_bytes):
            if rows and rows[-1][2] == found.owner:
                start = rows.pop()[0]
            rows.append((start, end, found.owner))
        return tuple(rows)

    def mapped_parts(self, extent: Extent) -> Iterator[Extent]:
        """The pieces of `extent` that are backed, segment by segment."""
        for place in self._segments(extent):
            if self._mappings[place] is not None:
                start = max(extent.offset_bytes, place * self.segment_bytes)
                end = min(extent.end_bytes, (place + 1) * self.segment_bytes)
                yield Extent(start, end - start)

    def describe_around(self, extent: Extent) -> str:
        """The map of owners and segments from one segment before `extent` to one behind it, at most eight rows."""
        start = max(0, extent.offset_bytes - self.segment_bytes)
        end = min(self.range_bytes, extent.end_bytes + self.segment_bytes)
        rows = [f"[{a}, {b}) owner={o.owner!r}/{o.generation}" for a, b, o in self._owners.runs(start, end)]
        near = Extent(start, max(0, end - start))
        backs = ["-" if m is None else str(m.segment_index) for m in self.backing(near)]
        cut = "" if len(rows) <= 8 and len(backs) <= 8 else " ..."
        return f"Map around it: {', '.join(rows[:8])}; segments {' '.join(backs[:8])}{cut}"

    def _segments(self, extent: Extent) -> range:
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


def _bytes(extent: Extent) -> str:
    return f"arena [{extent.offset_bytes}, {extent.end_bytes})"
