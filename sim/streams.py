"""Who is ordered after whom: vector clocks for the host task and every stream, and what follows for reads and writes.

A card overlaps streams as it likes. Only four things order anything: commands of one stream run in turn; what the
host knew when it issued a command comes before it; a `Wait` comes after what its event stood for; and the host
knows that a stream's work is over once `completions` gave it a `Notify` from behind that work.

One clock an actor carries this: entry b of actor a's clock is the last operation of b that surely is over when a's
next operation begins (C. Fidge and F. Mattern, 1988). A read must come after the last write of its bytes, a write
after the last write and every read since. Passing bytes on, mapping and unmapping are writes by the host.

Of reads, only those not yet ordered before a later read are kept: who is ordered after the later one is ordered
after the earlier one too (the epochs of FastTrack, PLDI 2009).
"""

from dataclasses import dataclass
from typing import NoReturn

from sim.cells import Cell
from sim.errors import EventError, OrderError
from strata.core.commands import Access, GraphLaunch, Launch, Record, Stream, Wait
from strata.core.extent import Extent, HostExtent

HOST = 0
ACTORS = ("host", *Stream)
ACTOR_OF = {stream: index for index, stream in enumerate(ACTORS) if isinstance(stream, Stream)}


@dataclass(slots=True, eq=False)
class Operation:
    """One thing done by one actor, compared by identity. `index` counts submitted commands from 0; `command` is one of
    them, the bytes that the host asked for, or words for what is no command."""

    actor: int
    tick: int
    index: int
    command: object

    def __str__(self) -> str:
        if isinstance(self.command, str):
            return self.command
        kind = type(self.command).__name__.lower()
        if isinstance(self.command, HostExtent):
            return f"access to {self.command.space} by the host before #{self.index}"
        if isinstance(self.command, Launch):
            kind += f" {self.command.program}"
        elif isinstance(self.command, GraphLaunch):
            kind += f" {self.command.graph}"
        where = "the host" if self.actor == HOST else f"stream {ACTORS[self.actor]}"
        return f"{kind} #{self.index} on {where}"


class Clocks:
    """The clocks and the recorded events."""

    def __init__(self) -> None:
        self._clocks = [[0] * len(ACTORS) for _ in ACTORS]
        self._events: dict[str, tuple[int, ...]] = {}
        self._host_changes = 0
        self._joined = [0] * len(ACTORS)  # how many changes of the host's clock each actor has seen

    def issue(self, actor: int, index: int, command: object) -> Operation:
        """The actor's next operation, ordered after everything that the host knows of."""
        clock = self._clocks[actor]
        if actor == HOST:
            self._host_changes += 1
        elif self._joined[actor] != self._host_changes:
            _join(clock, self._clocks[HOST])
            self._joined[actor] = self._host_changes
        clock[actor] = tick = clock[actor] + 1
        return Operation(actor, tick, index, command)

    def of(self, actor: int) -> list[int]:
        return self._clocks[actor]

    def snapshot(self, actor: int) -> tuple[int, ...]:
        return tuple(self._clocks[actor])

    def join_host(self, snapshot: tuple[int, ...]) -> None:
        """The host has seen that all of `snapshot` is over."""
        _join(self._clocks[HOST], snapshot)
        self._host_changes += 1

    def record(self, command: Record) -> None:
        self._events[command.event] = self.snapshot(ACTOR_OF[command.stream])

    def wait(self, command: Wait, by: Operation) -> None:
        if command.event not in self._events:
            raise EventError(
                f"{by} refused: event={command.event} was never recorded, so nothing would be waited for; "
                "record it first",
                command,
            )
        _join(self._clocks[by.actor], self._events[command.event])

    def check_read(self, cells: list[Cell], side: Access | HostExtent, by: Operation) -> None:
        clock = self._clocks[by.actor]
        for cell in cells:
            write = cell.write
            if write is not None and write.tick > clock[write.actor]:
                refuse_order(by, write, side, "reads bytes", "wrote")

    def check_write(self, cells: list[Cell], side: Access | HostExtent | Extent, by: Operation) -> None:
        clock = self._clocks[by.actor]
        for cell in cells:
            write = cell.write
            if write is not None and write.tick > clock[write.actor]:
                refuse_order(by, write, side, "writes bytes", "wrote")
            for read in cell.reads:
                if read.tick > clock[read.actor]:
                    refuse_order(by, read, side, "writes bytes", "reads")

    def note_read(self, cells: list[Cell], by: Operation) -> None:
        clock, alone = self._clocks[by.actor], (by,)
        for cell in cells:
            kept = [read for read in cell.reads if read.tick > clock[read.actor]] if cell.reads else None
            cell.reads = (*kept, by) if kept else alone


def _join(clock: list[int], other: list[int] | tuple[int, ...]) -> None:
    for actor, tick in enumerate(other):
        if tick > clock[actor]:
            clock[actor] = tick


def refuse_order(
    by: Operation, earlier: Operation, where: Access | HostExtent | Extent, doing: str, did: str
) -> NoReturn:
    """Raise OrderError: nothing orders `by` after `earlier`."""
    there = ACTORS[earlier.actor]
    if by.actor == HOST:
        mend = f"let the host take the Reached of a Notify issued on {there} after #{earlier.index} first"
    else:
        mend = f"record an event on {there} after #{earlier.index} and let {ACTORS[by.actor]} wait for it"
    space = where.space.value if isinstance(where, HostExtent) else "arena"
    extent = where.extent if isinstance(where, Access) else where
    raise OrderError(
        f"{by} {doing} that {earlier} {did}, {space} [{extent.offset_bytes}, {extent.end_bytes}): "
        f"no path {earlier} -> {by}; {mend}",
        by.command,
    )
