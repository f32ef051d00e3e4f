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

from sim.errors import TableError
from sim.interval import IntervalMap, Spans
from sim.streams import Clocks, History, Operation
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
    """Published versions by number, and a layer over the arena: whose readers each byte has."""

    def __init__(self, range_bytes: int, clocks: Clocks, arena: History) -> None:
        self._clocks = clocks
        self._arena = arena
        self._versions: dict[int, Readers] = {}
        self._newest = -1
        self._readers: IntervalMap[tuple[Readers, ...]] = IntervalMap(range_bytes, ())

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
            for access in readers.table:
                other = self._arena.find_other_writer(
                    access.extent.offset_bytes, access.extent.end_bytes, readers.upload
                )
                if other is not None:
                    raise TableError(
                        f"{by} refused: table version={version} was uploaded by {readers.upload}, but {other} "
                        "has written over it since",
                        by.command,
                    )
        return readers

    def check_write(self, extent: Extent, by: Operation) -> None:
        """A write of `extent` comes after every read through a table that reaches it."""
        clock = self._clocks.of(by.actor)
        for readers in self._at(extent):
            for actor, read in readers.last_reads.items():
                if read.tick > clock[actor]:
                    start, end = extent.offset_bytes, extent.end_bytes
                    did = f"may reach through table version={readers.version}"
                    self._arena.refuse(by, read, start, end, "changes bytes", did)

    def note_write(self, extent: Extent) -> None:
        """`extent` has changed: whoever reads it through a table is checked again in full."""
        for readers in self._at(extent):
            readers.checked.clear()
        self._readers.assign(extent.offset_bytes, extent.end_bytes, ())

    def note_read(self, readers: Readers, by: Operation) -> None:
        """`by` has read through the table. Readers ordered before it give way to it, as in `streams.History`."""
        readers.last_reads[by.actor] = by
        if by.actor in readers.checked:
            return
        clock = self._clocks.of(by.actor)

        def join(found: tuple[Readers, ...]) -> tuple[Readers, ...]:
            kept = []
            for other in found:
                if other is readers:
                    continue
                if all(read.tick <= clock[actor] for actor, read in other.last_reads.items()):
                    other.checked.clear()
                else:
                    kept.append(other)
            return (*kept, readers)

        for access in readers.accesses:
            self._readers.update(access.extent.offset_bytes, access.extent.end_bytes, join)
        readers.checked.add(by.actor)

    def _at(self, extent: Extent) -> Iterator[Readers]:
        for found in self._readers.values(extent.offset_bytes, extent.end_bytes):
            yield from found


def _overlap(left: tuple[Access, ...], right: tuple[Access, ...]) -> bool:
    return any(a.extent.overlaps(b.extent) for a in left for b in right)
