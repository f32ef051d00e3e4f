"""The address table as its readers see it: published versions, and who reads through which.

A version is published by the copy that uploads it. Its readers may reach the bytes which that copy wrote (the table
itself) and the version's entries. It is **superseded** as soon as another operation has written over any of those
table bytes: a reader sees what lies in the table, so a launch that names a version which is not there any more is
wrong, however it is ordered; bytes of the table that pass to another owner, in place too, are written over in this
sense: publish again. A launch not ordered after the upload is an error of order on the table's bytes.

A table has thousands of entries and every launch of a token reads through it. So readers are kept once a version,
not once an entry: `Readers` hangs at every byte of the version, holds the last read of each actor, and remembers
which actors have passed the full check since the last change under any of its bytes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from sim.cells import Cell, Cells
from sim.errors import TableError
from sim.interval import Spans
from sim.streams import Clocks, Operation, refuse_order
from strata.core.commands import Access, TableVersion
from strata.core.extent import Extent


@dataclass(slots=True, eq=False)
class Readers:
    """One published version. `last_reads` by actor; `checked` are the actors for whom nothing changed since."""

    version: int
    upload: Operation
    table: tuple[Access, ...]  # where the upload wrote
    entries: tuple[Access, ...]
    spans: Spans
    last_reads: dict[int, Operation] = field(default_factory=dict)
    checked: set[int] = field(default_factory=set)

    @property
    def accesses(self) -> tuple[Access, ...]:
        return self.table + self.entries


class Tables:
    """Published versions by number. Each cell of `arena` holds the versions through which it has been read."""

    def __init__(self, clocks: Clocks, arena: Cells) -> None:
        self._clocks, self._arena = clocks, arena
        self._versions: dict[int, Readers] = {}
        self._newest = -1

    def check_publish(self, published: TableVersion, by: Operation) -> None:
        if published.version <= self._newest:
            raise TableError(
                f"{by} refused: publishes version={published.version} after version={self._newest}; numbers go up",
                by.command,
            )

    def publish(self, published: TableVersion, table: tuple[Access, ...], by: Operation) -> None:
        """`by` has uploaded `published` into `table`. Versions that it wrote over are forgotten."""
        spans = Spans((a.extent.offset_bytes, a.extent.end_bytes) for a in table + published.entries)
        for old in [old for old in self._versions.values() if _overlap(old.table, table)]:
            del self._versions[old.version]
        self._versions[published.version] = Readers(published.version, by, table, published.entries, spans)
        self._newest = published.version

    def find(self, version: int, by: Operation) -> Readers:
        """The version that a launch names, if its table still lies where it was uploaded."""
        readers = self._versions.get(version)
        if readers is None:
            why = "superseded" if version <= self._newest else "not published yet"
            raise TableError(
                f"{by} refused: reads through table version={version}, which is {why}; the newest is "
                f"version={self._newest}",
                by.command,
            )
        if by.actor not in readers.checked:
            for cell in self._cells(readers.table):
                if cell.write is not readers.upload:
                    raise TableError(
                        f"{by} refused: table version={version} was uploaded by {readers.upload}, but {cell.write} "
                        "has written over it since",
                        by.command,
                    )
        return readers

    def check_write(self, cells: list[Cell], extent: Extent, by: Operation) -> None:
        """A write of `extent` comes after every read through a table that reaches it."""
        clock = self._clocks.of(by.actor)
        for cell in cells:
            for readers in cell.readers:
                for actor, read in readers.last_reads.items():
                    if read.tick > clock[actor]:
                        did = f"may reach through table version={readers.version}"
                        refuse_order(by, read, extent, "changes bytes", did)

    def note_write(self, cell: Cell) -> None:
        """The bytes have changed: whoever reads them through a table is checked again in full."""
        for readers in cell.readers:
            readers.checked.clear()
        cell.readers = ()

    def note_read(self, readers: Readers, by: Operation) -> None:
        """`by` has read through the table. Readers ordered before it give way to it, as in `Clocks.note_read`."""
        readers.last_reads[by.actor] = by
        if by.actor in readers.checked:
            return
        clock = self._clocks.of(by.actor)
        for cell in self._cells(readers.accesses):
            kept = []
            for other in cell.readers:
                if other is readers:
                    continue
                if all(read.tick <= clock[actor] for actor, read in other.last_reads.items()):
                    other.checked.clear()
                else:
                    kept.append(other)
            cell.readers = (*kept, readers)
        readers.checked.add(by.actor)

    def _cells(self, accesses: tuple[Access, ...]) -> Iterator[Cell]:
        for access in accesses:
            yield from self._arena.cut(access.extent.offset_bytes, access.extent.end_bytes)


def _overlap(left: tuple[Access, ...], right: tuple[Access, ...]) -> bool:
    return any(a.extent.overlaps(b.extent) for a in left for b in right)
