"""What a watched replay looks at beside what launches read, and where marks are left. Pure.

A look is a launch that writes nothing, on the stream of the command that it looks for: so whoever is ordered with that
command is ordered with the look, and a right trace stays right.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from strata.core.commands import Access, Copy, Digest, GraphLaunch, Launch, TableRead
from strata.core.extent import HostExtent
from strata.trace.card_state import CardState
from strata.trace.entries import Asked

Accesses = tuple[Access, ...]


@dataclass(frozen=True, slots=True)
class Looks:
    """At these, before the command and behind it; and the lane in which the command itself leaves so many marks."""

    before: Accesses = ()
    after: Accesses = ()
    lane: str = ""
    num_marks: int = 0


def lane_of_graph(name: str) -> str:
    """A launch that is no node has its stream's name for a lane."""
    return f"graph {name}"


def looks_of(asked: Asked, state: CardState) -> Looks:
    """At what a copy or a digest takes from the card and a copy leaves there, and at all that a version of the address
    table names, when it is published and before anybody reads through it. `state`: of the card before `asked`."""
    match asked:
        case Launch():
            return Looks(tuple(_named([asked], state, None)), (), asked.stream, 1)
        case GraphLaunch():
            pinned = state.graphs.get(asked.graph)
            nodes = () if pinned is None else pinned.captured.launches
            named = tuple(_named(nodes, state, asked.table_version))
            return Looks(named, (), lane_of_graph(asked.graph), len(nodes))
        case Copy():
            named = () if asked.publishes is None else asked.publishes.entries
            targets = _on_card(pair.target for pair in asked.pairs)
            return Looks(_on_card(pair.source for pair in asked.pairs), targets + named)
        case Digest():
            return Looks((asked.source,))
        case _:
            return Looks()


def _on_card(sides: Iterable[Access | HostExtent]) -> Accesses:
    return tuple(side for side in sides if isinstance(side, Access) and side.extent.size_bytes)


def _named(launches: Iterable[Launch], state: CardState, version: int | None) -> Iterator[Access]:
    """By the tables that these read through; a graph's launch says which `version` that is."""
    reads = [read for launch in launches for read in launch.reads if isinstance(read, TableRead)]
    wanted = {read.version if version is None else version for read in reads}
    for table in state.tables:
        if table.version.version in wanted:
            yield from table.version.entries
