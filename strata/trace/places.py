"""Names for bytes: a trace says `["kv", 0, 4096]`, never an address.

A *place* is a named run of the arena, of the pack or of the staging memory; the places of one space are disjoint. Bytes
that lie in no place, or cross its end, are named by their space.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from strata.core.extent import Extent, HostExtent, HostSpace

ARENA = "arena"
SPACES = (ARENA, *(space.value for space in HostSpace))
PACK_PREFIX = f"{HostSpace.PACK}/"
"""Before the name of what lies somewhere in the pack: `pack/blob 3 17` holds the content `blob 3 17`."""

Where = Extent | HostExtent


@dataclass(frozen=True, slots=True)
class Place:
    name: str
    where: Where


def space_of(where: Where) -> str:
    return ARENA if isinstance(where, Extent) else where.space.value


def make_where(space: str, offset_bytes: int, size_bytes: int) -> Where:
    if space == ARENA:
        return Extent(offset_bytes, size_bytes)
    return HostExtent(HostSpace(space), offset_bytes, size_bytes)


class Places:
    """Raises ValueError for names that come twice or are a space's, and for places that overlap or are empty."""

    def __init__(self, places: Sequence[Place]) -> None:
        self.rows = tuple(sorted(places, key=lambda p: (space_of(p.where), p.where.offset_bytes, p.name)))
        self._by_name = {place.name: place.where for place in self.rows}
        if len(self._by_name) != len(self.rows) or self._by_name.keys() & set(SPACES):
            raise ValueError("a place's name comes twice, or is that of a space")
        self._starts: dict[str, list[int]] = {space: [] for space in SPACES}
        self._places: dict[str, list[Place]] = {space: [] for space in SPACES}
        for place in self.rows:
            space = space_of(place.where)
            before = self._places[space][-1].where.end_bytes if self._places[space] else 0
            if not place.where.size_bytes or place.where.offset_bytes < before:
                raise ValueError(f"place {place.name!r} is empty or overlaps another one")
            self._starts[space].append(place.where.offset_bytes)
            self._places[space].append(place)

    def name_of(self, where: Where) -> tuple[str, int, int]:
        """Name, offset from its start, size."""
        space = space_of(where)
        at = bisect_right(self._starts[space], where.offset_bytes) - 1
        if at >= 0:
            place = self._places[space][at]
            if where.end_bytes <= place.where.end_bytes:
                return place.name, where.offset_bytes - place.where.offset_bytes, where.size_bytes
        return space, where.offset_bytes, where.size_bytes

    def find(self, name: str, offset_bytes: int, size_bytes: int) -> Where:
        """Raises ValueError for a name that there is not and for numbers that are no bytes."""
        if type(offset_bytes) is not int or type(size_bytes) is not int or offset_bytes < 0 or size_bytes < 0:
            raise ValueError(f"bytes [{offset_bytes!r}, {size_bytes!r}] of {name!r}: two natural numbers are needed")
        if name in SPACES:
            return make_where(name, offset_bytes, size_bytes)
        if name not in self._by_name:
            raise ValueError(f"place {name!r} is not in the head")
        home = self._by_name[name]
        return make_where(space_of(home), home.offset_bytes + offset_bytes, size_bytes)

    def manifest(self) -> list[tuple[HostExtent, str]]:
        """What the places say of the pack's contents."""
        return [
            (place.where, place.name.removeprefix(PACK_PREFIX))
            for place in self.rows
            if isinstance(place.where, HostExtent) and place.name.startswith(PACK_PREFIX)
        ]
