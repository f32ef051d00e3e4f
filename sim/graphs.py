"""Captured graphs and when they are stale.

A graph pins, for every byte that its launches name, the physical segment behind it and its owner. It may be launched
only while both are again what they were at capture. So a loan makes it stale while bytes are away, and it is valid
again once they are home: an address never moves, and nothing is recaptured (`lending.md` 3.2, invariant 12). Whether
the bytes hold the right content by then is checked launch by launch, as for any launch.

What a graph reaches through the address table is not pinned: that is what the table is for.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sim.errors import GraphError
from sim.interval import Spans
from sim.scope import Declared
from sim.shadow import content_of
from sim.streams import Operation
from sim.vram import Mapping, OwnerRow, Vram
from strata.core.commands import Access, Launch, TableRead
from strata.core.extent import Extent


@dataclass(frozen=True, slots=True)
class Pin:
    extent: Extent
    backing: tuple[Mapping | None, ...]
    owners: tuple[OwnerRow, ...]


class Node:
    """A launch and what it names, taken apart once: `contents` is what each of its writes leaves."""

    __slots__ = ("contents", "declared", "launch", "reads", "table_reads", "writes")

    def __init__(self, launch: Launch) -> None:
        self.launch, self.writes = launch, launch.writes
        self.reads: list[Access] = []
        self.table_reads: list[TableRead] = []
        for read in launch.reads:
            if isinstance(read, Access):
                self.reads.append(read)
            else:
                self.table_reads.append(read)
        self.contents = [content_of(side) for side in launch.writes]
        self.declared = Declared(self.reads, launch.writes)


@dataclass(slots=True)
class Graph:
    """`num_changes` is the card's when all pins were last seen in place."""

    name: str
    nodes: tuple[Node, ...]
    pins: tuple[Pin, ...]
    num_changes: int


def capture_graph(name: str, launches: Sequence[Launch], vram: Vram, by: Operation) -> Graph:
    """Pin everything that `launches` name. Raises when some of it is not mapped or not theirs now."""
    accesses = [a for launch in launches for a in (*launch.reads, *launch.writes) if isinstance(a, Access)]
    for access in accesses:
        vram.check_access(vram.cut(access.extent, by), access, by)
    spans = Spans((access.extent.offset_bytes, access.extent.end_bytes) for access in accesses)
    extents = [Extent(start, end - start) for start, end in spans]
    pins = tuple(Pin(e, vram.backing(e), vram.owner_rows(e)) for e in extents)
    return Graph(name, tuple(map(Node, launches)), pins, vram.num_changes)


def check_graph(graph: Graph, vram: Vram, by: Operation) -> None:
    """Raises GraphError when any pinned byte is elsewhere or somebody else's. A token asks each time, so nothing is
    looked at while nothing on the card was mapped, unmapped or passed on."""
    if graph.num_changes == vram.num_changes:
        return
    for pin in graph.pins:
        backing = vram.backing(pin.extent)
        for then, now in zip(pin.backing, backing, strict=True) if backing != pin.backing else ():
            if then is None or now is None or then.segment_index != now.segment_index:
                raise _stale(graph, pin.extent, f"backed by {then} at capture and by {now} now", vram, by)
        owners = vram.owner_rows(pin.extent)
        if owners != pin.owners:
            raise _stale(graph, pin.extent, f"owned as {_show(pin.owners)} at capture, {_show(owners)} now", vram, by)
    graph.num_changes = vram.num_changes


def _stale(graph: Graph, extent: Extent, what: str, vram: Vram, by: Operation) -> GraphError:
    return GraphError(
        f"{by} refused: graph={graph.name} is stale: arena [{extent.offset_bytes}, {extent.end_bytes}) was {what}; "
        f"bring the bytes home or capture again. {vram.describe_around(extent)}",
        by.command,
    )


def _show(rows: tuple[OwnerRow, ...]) -> str:
    return ", ".join(f"[{start}, {end}) {owner!r}" for start, end, owner in rows[:4])
