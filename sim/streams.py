"""Who is ordered after whom: vector clocks for the host task and every stream, and the history of each byte.

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

from sim.errors import EventError, OrderError
from sim.interval import IntervalMap
from strata.core.commands import GraphLaunch, Launch, Record, Stream, Wait
from strata.core.extent import HostExtent

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
            return f"access to staging by the host before #{self.index}"
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

    def issue(self, actor: int, index: int, command: object) -> Operation:
        """The actor's next operation, ordered after everything that the host knows of."""
        clock = self._clocks[actor]
        if actor != HOST:
            _join(clock, self._clocks[HOST])
        clock[actor] += 1
        return Operation(actor, clock[actor], index, command)

    def of(self, actor: int) -> list[int]:
        return self._clocks[actor]

    def snapshot(self, actor: int) -> tuple[int, ...]:
        return tuple(self._clocks[actor])

    def join_host(self, snapshot: tuple[int, ...]) -> None:
        """The host has seen that all of `snapshot` is over."""
        _join(self._clocks[HOST], snapshot)

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


def _join(clock: list[int], other: list[int] | tuple[int, ...]) -> None:
    for actor, tick in enumerate(other):
        if tick > clock[actor]:
            clock[actor] = tick


class History:
    """Last writer, and the readers since, of every byte of one address space called `space`."""

    def __init__(self, space: str, size_bytes: int, clocks: Clocks) -> None:
        self._space = space
        self._clocks = clocks
        self._writes: IntervalMap[Operation | None] = IntervalMap(size_bytes, None)
        self._reads: IntervalMap[tuple[Operation, ...]] = IntervalMap(size_bytes, ())

    def check_read(self, start: int, end: int, by: Operation) -> None:
        clock = self._clocks.of(by.actor)
        for write in self._writes.values(start, end):
            if write is not None and write.tick > clock[write.actor]:
                self.refuse(by, write, start, end, "reads bytes", "wrote")

    def check_write(self, start: int, end: int, by: Operation) -> None:
        clock = self._clocks.of(by.actor)
        for write in self._writes.values(start, end):
            if write is not None and write.tick > clock[write.actor]:
                self.refuse(by, write, start, end, "writes bytes", "wrote")
        for readers in self._reads.values(start, end):
            for read in readers:
                if read.tick > clock[read.actor]:
                    self.refuse(by, read, start, end, "writes bytes", "reads")

    def note_read(self, start: int, end: int, by: Operation) -> None:
        clock = self._clocks.of(by.actor)
        self._reads.update(start, end, lambda reads: (*(r for r in reads if r.tick > clock[r.actor]), by))

    def note_write(self, start: int, end: int, by: Operation) -> None:
        self._writes.assign(start, end, by)
        self._reads.assign(start, end, ())

    def find_other_writer(self, start: int, end: int, writer: Operation) -> Operation | None:
        """Who wrote over something that `writer` had written to all of [start, end)."""
        return next((write for write in self._writes.values(start, end) if write is not writer), None)

    def refuse(self, by: Operation, earlier: Operation, start: int, end: int, doing: str, did: str) -> None:
        """Raise OrderError: nothing orders `by` after `earlier`."""
        there = ACTORS[earlier.actor]
        if by.actor == HOST:
            mend = f"let the host take the Reached of a Notify issued on {there} after #{earlier.index} first"
        else:
            mend = f"record an event on {there} after #{earlier.index} and let {ACTORS[by.actor]} wait for it"
        raise OrderError(
            f"{by} {doing} that {earlier} {did}, {self._space} [{start}, {end}): no path {earlier} -> {by}; {mend}",
            by.command,
        )
