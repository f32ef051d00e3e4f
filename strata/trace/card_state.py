"""What a card is after some entries of a trace: what backs it, who owns it, what lies in it, and what is under way.

Follows and judges nothing: a command that was refused changed nothing, one that was accepted did what it says. It is
the state that a replay ends in, that a picture shows, and that the head of a cut trace has to bring back.
"""

from dataclasses import dataclass

from strata.core.commands import (
    Access,
    Copy,
    CopyPair,
    Digest,
    Fill,
    GraphLaunch,
    Launch,
    Map,
    Notify,
    Record,
    Stream,
    TableVersion,
    Transfer,
    Unmap,
)
from strata.core.events import Reached
from strata.core.extent import Extent, HostExtent, HostSpace
from strata.trace.command_trace import CardSizes
from strata.trace.entries import Captured, Entry, Faulted, FaultKind, HostAccess
from strata.trace.runs import Runs

UNDEFINED = None
Content = tuple[str | None] | None
"""What lies in a byte: undefined, or written, by somebody who said what or did not."""


@dataclass(frozen=True, slots=True)
class Published:
    """A version of the address table that readers may name: how it was uploaded, and what it says."""

    pairs: tuple[CopyPair, ...]
    version: TableVersion


@dataclass(frozen=True, slots=True)
class Pinned:
    """A captured graph, with what backed the card and who owned it then."""

    captured: Captured
    segments: dict[int, int]
    owners: Runs[str]


class CardState:
    """`segments`: offset of a segment in the arena -> the physical one behind it. `written`: bytes of the host spaces
    that commands may write, and somebody has. `recorded`: event -> stream; `pending`: tag -> stream, of notices that
    nobody has taken yet."""

    def __init__(self, sizes: CardSizes) -> None:
        range_bytes = sizes.arena_bytes + sizes.behind_bytes
        self.sizes = sizes
        self.segments: dict[int, int] = {}
        self.owners: Runs[str] = Runs(range_bytes, "")
        self.contents: Runs[Content] = Runs(range_bytes, UNDEFINED)
        self.written: dict[HostSpace, Runs[bool]] = {
            HostSpace.STAGING: Runs(sizes.staging_bytes, False),
            HostSpace.PARKED: Runs(sizes.parked_bytes, False),
        }
        self.recorded: dict[str, Stream] = {}
        self.pending: dict[str, Stream] = {}
        self.tables: list[Published] = []
        self.graphs: dict[str, Pinned] = {}
        self._num_writes = 0
        self._repeated: tuple[str, int] | None = None

    def apply(self, entry: Entry) -> None:
        match entry:
            case Launch():
                self._write_all(entry.writes)
            case GraphLaunch():
                self._launch_graph(entry)
            case Copy():
                self._copy(entry)
            case Fill():
                self._write(entry.target)
            case Digest():
                self._write(entry.target)
            case Record():
                self.recorded[entry.event] = entry.stream
            case Notify():
                self.pending[entry.tag] = entry.stream
            case Reached():
                self.pending.pop(entry.tag, None)
            case Map():
                self.segments[entry.extent.offset_bytes] = entry.segment_index
                self._forget(entry.extent)
            case Unmap():
                self.segments.pop(entry.extent.offset_bytes, None)
                self._forget(entry.extent)
            case Transfer():
                self.owners.assign(entry.extent.offset_bytes, entry.extent.end_bytes, entry.taker)
                if not entry.in_place:
                    self._forget(entry.extent)
            case Captured():
                self._repeated = None
                self.graphs.pop(entry.name, None)  # the order of capture is kept
                self.graphs[entry.name] = Pinned(entry, dict(self.segments), self.owners.copy())
            case HostAccess():
                self._write(entry.extent)
            case Faulted(command, FaultKind.FAILED):
                self._spoil(command)
            case _:
                pass

    def _launch_graph(self, command: GraphLaunch) -> None:
        """A reply is one graph over and over: where nothing else wrote to the card since, it writes what it wrote."""
        if self._repeated == (command.graph, self._num_writes) or command.graph not in self.graphs:
            return
        for node in self.graphs[command.graph].captured.launches:
            self._write_all(node.writes)
        self._repeated = (command.graph, self._num_writes)

    def _spoil(self, command: Entry) -> None:
        """What `command` was to write is anything."""
        match command:
            case Launch():
                self._forget_all(command.writes)
            case GraphLaunch():
                if command.graph in self.graphs:
                    for node in self.graphs[command.graph].captured.launches:
                        self._forget_all(node.writes)
            case Copy():
                for pair in command.pairs:
                    self._forget(pair.target.extent if isinstance(pair.target, Access) else pair.target)
            case Fill():
                self._forget(command.target.extent)
            case Digest():
                self._forget(command.target)
            case _:
                pass

    def _copy(self, command: Copy) -> None:
        for pair in command.pairs:
            self._write(pair.target)
        if command.publishes is not None:
            targets = [pair.target.extent for pair in command.pairs if isinstance(pair.target, Access)]
            self.tables = [old for old in self.tables if not _meet(old, targets)]
            self.tables.append(Published(command.pairs, command.publishes))

    def _write_all(self, writes: tuple[Access, ...]) -> None:
        for access in writes:
            self._write(access)

    def _write(self, side: Access | HostExtent) -> None:
        if isinstance(side, Access):
            self._num_writes += 1
            self.contents.assign(side.extent.offset_bytes, side.extent.end_bytes, (side.content,))
        elif side.space in self.written:
            self.written[side.space].assign(side.offset_bytes, side.end_bytes, True)

    def _forget_all(self, writes: tuple[Access, ...]) -> None:
        for access in writes:
            self._forget(access.extent)

    def _forget(self, where: Extent | HostExtent) -> None:
        if isinstance(where, Extent):
            self._num_writes += 1
            self.contents.assign(where.offset_bytes, where.end_bytes, UNDEFINED)
        elif where.space in self.written:
            self.written[where.space].assign(where.offset_bytes, where.end_bytes, False)


def _meet(published: Published, targets: list[Extent]) -> bool:
    return any(
        isinstance(pair.target, Access) and pair.target.extent.overlaps(target)
        for pair in published.pairs
        for target in targets
    )
