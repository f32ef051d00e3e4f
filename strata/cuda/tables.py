"""Versions of the address table that lie on the card, and the bytes that their readers may reach.

A version lives until another is uploaded over its table. Its entries are looked at again when something has been
unmapped since: a reader that followed an address into a hole would take the whole context with it. Whether they
hold the right bytes, and in what order, is the twin's question.
"""

from dataclasses import dataclass

from strata.core.commands import Access, Copy, TableVersion
from strata.core.errors import DeviceError
from strata.core.extent import Extent
from strata.cuda.arena import Arena
from strata.cuda.pinned import HostMemory
from strata.cuda.scope import Spans


@dataclass(slots=True)
class _Published:
    table: tuple[Extent, ...]
    reach: Spans  # the table and its entries
    num_unmaps: int  # of the arena when all of `reach` was last seen mapped


class Tables:
    def __init__(self, arena: Arena, pack: HostMemory) -> None:
        self._arena, self._pack = arena, pack
        self._versions: dict[int, _Published] = {}
        self._newest = -1

    def check(self, published: TableVersion) -> None:
        """Raises DeviceError when the version is not newer than all before, or an entry lies in a hole."""
        if published.version <= self._newest:
            raise DeviceError(
                f"publish refused: version={published.version} after version={self._newest}; numbers go up"
            )
        for entry in published.entries:
            self._arena.check_mapped(entry.extent)

    def publish(self, copy: Copy) -> None:
        """The upload is issued: versions that it writes over are gone."""
        assert copy.publishes is not None
        table = tuple(pair.target.extent for pair in copy.pairs if isinstance(pair.target, Access))
        for number, old in list(self._versions.items()):
            if any(mine.overlaps(theirs) for mine in table for theirs in old.table):
                del self._versions[number]
        reach = Spans([*table, *(entry.extent for entry in copy.publishes.entries)])
        self._newest = copy.publishes.version
        self._versions[self._newest] = _Published(table, reach, self._arena.num_unmaps)

    def reach(self, version: int) -> Spans:
        """What a reader of `version` may reach, beside the pack. Raises DeviceError when the version is not there, some
        of it is unmapped, or the pack is not complete."""
        self._pack.check_sealed("a launch reads through the address table, and so the pack,")
        published = self._versions.get(version)
        if published is None:
            why = "superseded" if version <= self._newest else "not published yet"
            raise DeviceError(f"table version={version} is {why}; the newest is version={self._newest}")
        if published.num_unmaps != self._arena.num_unmaps:
            for extent in published.reach.extents():
                self._arena.check_mapped(extent)
            published.num_unmaps = self._arena.num_unmaps
        return published.reach

    def newest(self) -> int:
        """For a capture, where the launch will name its version only later. Raises DeviceError before the first."""
        if self._newest < 0:
            raise DeviceError("capture refused: a launch reads through the address table; publish a version first")
        return self._newest
