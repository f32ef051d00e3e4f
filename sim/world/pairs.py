"""Which operations met which in a world, and in what order: for every two kinds of operation on one class of bytes,
whether the one came surely before the other, or neither did.

    prompt   launch #4 ---record--.
    copy         wait <-----------'  copy in #7        launch before copy in, on prompt bytes
    copy     copy in #9                                copy in beside copy out, on prompt bytes
    prompt   copy out #8

A class of bytes is a region by its owner's name, or a host space that commands write. Of each kind only the last
operation of an actor on a class is kept: what came before that one came before all that comes after it. Judges
nothing.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from sim.graphs import Graph
from sim.shadow import Shadow
from sim.streams import HOST, Clocks, Operation
from strata.core.commands import (
    Access,
    Command,
    Copy,
    Fill,
    GraphLaunch,
    Launch,
    Map,
    TableRead,
    Transfer,
    Unmap,
)
from strata.core.extent import HostExtent, HostSpace

STAGING, CACHE, NOBODY = "staging", "cache", "nobody"
COPY_IN, COPY_OUT, FILL, LAUNCH, WINDOW = "copy in", "copy out", "fill", "launch", "window"
TRANSFER, MAP, UNMAP, HOST_ACCESS = "transfer", "map", "unmap", "host access"
KINDS = (COPY_IN, COPY_OUT, FILL, LAUNCH, WINDOW, TRANSFER, MAP, UNMAP, HOST_ACCESS)
BEFORE, BESIDE = "before", "beside"


class Pair(NamedTuple):
    """`first` before `second`, or beside it; of two that are beside each other the one that KINDS names first."""

    first: str
    relation: str
    second: str
    region: str

    def __str__(self) -> str:
        return f"{self.first} {self.relation} {self.second}, {self.region}"


class Pairs:
    def __init__(self, graphs: Mapping[str, Graph]) -> None:
        self.counts: Counter[Pair] = Counter()
        self._graphs = graphs
        self._last: dict[str, dict[tuple[str, int], Operation]] = {}

    def note(self, command: Command, by: Operation, shadow: Shadow) -> None:
        kind = _KINDS.get(type(command))
        if isinstance(command, Copy):
            kind = COPY_OUT if isinstance(command.pairs[0].target, HostExtent) else COPY_IN
        if kind is not None:
            for region in set(_regions(command, shadow, self._graphs)):
                self._meet(kind, region, by, shadow.clocks)

    def note_host(self, clocks: Clocks) -> None:
        """The host has just asked for staging."""
        self._meet(HOST_ACCESS, STAGING, Operation(HOST, clocks.of(HOST)[HOST], -1, HOST_ACCESS), clocks)

    def _meet(self, kind: str, region: str, by: Operation, clocks: Clocks) -> None:
        clock = clocks.of(by.actor)
        last = self._last.setdefault(region, {})
        for (other, actor), operation in last.items():
            if operation.tick <= clock[actor]:
                self.counts[Pair(other, BEFORE, kind, region)] += 1
            else:
                first, second = sorted((other, kind), key=KINDS.index)
                self.counts[Pair(first, BESIDE, second, region)] += 1
        last[kind, by.actor] = by


_KINDS = {Fill: FILL, Launch: LAUNCH, GraphLaunch: WINDOW, Transfer: TRANSFER, Map: MAP, Unmap: UNMAP}


def _regions(command: Command, shadow: Shadow, graphs: Mapping[str, Graph]) -> Iterator[str]:
    match command:
        case Copy(pairs=pairs):
            for side in (side for pair in pairs for side in (pair.source, pair.target)):
                if isinstance(side, Access):
                    yield side.owner
                elif side.space is not HostSpace.PACK:
                    yield side.space
        case Fill(target=target):
            yield target.owner
        case Launch(reads=reads, writes=writes):
            yield from (CACHE if isinstance(side, TableRead) else side.owner for side in (*reads, *writes))
        case GraphLaunch(graph=graph):
            for node in graphs[graph].nodes:
                yield from _regions(node.launch, shadow, graphs)
        case Transfer(giver=giver, taker=taker):
            yield from (giver or NOBODY, taker or NOBODY)
        case Map(extent=extent) | Unmap(extent=extent):
            yield from (owner or NOBODY for _, _, owner in shadow.vram.owner_rows(extent))
