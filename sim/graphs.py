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
from sim.scope import Declared, spans_of
from sim.shadow import content_of
from sim.streams import Operation
from sim.vram import Mapping, OwnerRow, Vram
from strata.core.commands import Access, Launch, TableRead
from strata.core.extent import Extent


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
    """`extents` are all bytes that it names; `owners` and `mappings` the whole card's at capture, `num_changes` its
    when they were last seen so at these bytes."""

    name: str
    nodes: tuple[Node, ...]
    extents: tuple[Extent, ...]
    owners: tuple[OwnerRow, ...]
    mappings: tuple[Mapping | None, ...]
    num_changes: int


def capture_graph(name: str, launches: Sequence[Launch], vram: Vram, by: Operation) -> Graph:
    """Pin everything that `launches` name. Raises when some of it is not mapped or not theirs now."""
    nodes = tuple(map(Node, launches))
    accesses = [access for node in nodes for access in (*node.reads, *node.launch.writes)]
    for access in accesses:
        cells = vram.cut(access.extent, by)
        if len(cells) != 1 or not vram.is_held(cells[0], access):
            vram.check_access(cells, access, by)
    extents = tuple([Extent(start, end - start) for start, end in Spans(spans_of(accesses))])
    return Graph(name, nodes, extents, vram.owners(), tuple(vram.mappings), vram.num_changes)


def check_graph(graph: Graph, vram: Vram, by: Operation) -> None:
    """Raises GraphError when any pinned byte is elsewhere or somebody else's. A token asks each time, so nothing is
    looked at while nothing on the card was mapped, unmapped or passed on."""
    if graph.num_changes == vram.num_changes:
        return
    owners, mappings = vram.owners(), tuple(vram.mappings)
    if owners != graph.owners or mappings != graph.mappings:
        for extent in graph.extents:
            for place in vram.segments(extent):
                then, now = graph.mappings[place], mappings[place]
                if then is None or now is None or then.segment_index != now.segment_index:
                    raise _stale(graph, extent, f"backed by {then} at capture and by {now} now", vram, by)
            before, after = _within(extent, graph.owners), _within(extent, owners)
            if before != after:
                raise _stale(graph, extent, f"owned as {_show(before)} at capture, {_show(after)} now", vram, by)
    graph.num_changes = vram.num_changes


def _within(extent: Extent, rows: tuple[OwnerRow, ...]) -> list[OwnerRow]:
    """The rows that meet `extent`, cut to it."""
    first, behind = extent.offset_bytes, extent.end_bytes
    return [
        (max(first, start), min(behind, end), owner) for start, end, owner in rows if start < behind and first < end
    ]


def _stale(graph: Graph, extent: Extent, what: str, vram: Vram, by: Operation) -> GraphError:
    return GraphError(
        f"{by} refused: graph={graph.name} is stale: arena [{extent.offset_bytes}, {extent.end_bytes}) was {what}; "
        f"bring the bytes home or capture again. {vram.describe_around(extent)}",
        by.command,
    )


def _show(rows: list[OwnerRow]) -> str:
    return ", ".join(f"[{start}, {end}) {owner!r}" for start, end, owner in rows[:4])
