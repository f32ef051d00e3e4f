"""A command trace, played onto any device without its payload.

Copies, fills, maps, transfers, records, waits and notices are what they were. A launch runs a program that takes
the positional digest of everything it declared to read and fills everything it declared to write with a pattern of
those digests (`ReplayArgs`), so that one wrong byte, or one that was read too early, changes what every later reader
sees. What the host staged is a pattern of the digest that the trace has of it. At the end every defined run of the card
is digested by the device itself: two devices that did the same have the same digests.

The host learns what the trace says it learned, when it says so. Bytes behind an address table are not read by the
programs of a replay; that they may be is for the device to check.

A *watched* replay also looks at what copies take and leave (`looks.py`). Every look and every launch leaves a mark in
its *lane*: its stream's, or that of the graph it is a node of (`marks.py`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from strata.core.commands import Access, Command, Copy, Digest, GraphLaunch, Launch, Notify, Stream
from strata.core.errors import DeviceError
from strata.core.events import Event, Failed, Reached
from strata.core.extent import Extent, HostExtent, HostSpace
from strata.device import Device
from strata.trace.card_state import CardState
from strata.trace.command_trace import CommandTrace
from strata.trace.digest import WORD_BYTES, pattern
from strata.trace.entries import Asked, Captured, Entry, Faulted, FaultKind, HostAccess, Noted, Refused
from strata.trace.looks import lane_of_graph, looks_of

FIRST_LINE = 2
"""Of a trace, the head is line 1."""

LOOK = "look"
"""The program of a watched replay that reads and writes nothing."""


@dataclass(frozen=True, slots=True)
class ReplayArgs:
    """What a replay's programs get: digest `reads` in this order, leave a mark of them in `lane`, then fill each of
    `writes`."""

    reads: tuple[Extent, ...]
    writes: tuple[Extent, ...]
    lane: str


@dataclass(frozen=True, slots=True)
class Deviation:
    """The device refused something, or did not refuse what it had refused when the trace was recorded. `line` of the
    file; `recorded` and `found` are "" for no refusal, else the class of the error."""

    line: int
    asked: Asked
    recorded: str
    found: str
    message: str


@dataclass(frozen=True, slots=True)
class RunDigest:
    """Of one defined run of bytes that have one owner."""

    owner: str
    extent: Extent
    digest: int


@dataclass(frozen=True, slots=True)
class Replayed:
    """`digests` are empty when something was refused: what follows a refusal says nothing. `lines`: by lane, the line
    that each of its marks comes from."""

    num_entries: int
    num_commands: int
    deviations: tuple[Deviation, ...]
    digests: tuple[RunDigest, ...]
    lines: Mapping[str, Sequence[int]]


class ReplayStalled(DeviceError):
    """The device does not report what it reported when the trace was recorded."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """What a replay needs of the one who made the device. `fail_next`: the next command is taken and fails on its way;
    None where that cannot be had. `tell`: the host is about to learn this event and nothing else. `settle`: no command
    of the trace comes any more. `pause` is called while a device has nothing to report; it raises when it never will
    have."""

    pause: Callable[[], None]
    fail_next: Callable[[], None] | None = None
    tell: Callable[[Event], None] = lambda event: None
    settle: Callable[[], None] = lambda: None


def replay(
    trace: CommandTrace, device: Device, hooks: Hooks, *, is_digesting: bool = True, is_watched: bool = False
) -> Replayed:
    """Onto a device that is sealed, empty, and of the trace's sizes. Stops at the first deviation. `is_digesting`: the
    device has bytes. Raises ReplayStalled where `hooks.pause` does."""
    player = _Player(trace, device, hooks, is_watched=is_watched)
    for number, entry in enumerate(trace.entries, FIRST_LINE):
        player.play(number, entry)
        if player.deviations:
            break
    hooks.settle()
    is_digesting = is_digesting and not player.deviations and not player.has_refused
    digests = tuple(player.digest_card()) if is_digesting else ()
    return Replayed(len(trace.entries), player.num_commands, tuple(player.deviations), digests, player.lines)


class _Player:
    def __init__(self, trace: CommandTrace, device: Device, hooks: Hooks, *, is_watched: bool) -> None:
        self._device, self._hooks, self._is_watched = device, hooks, is_watched
        self._state = CardState(trace.sizes)
        self.lines: dict[str, list[int]] = {}
        self._told: list[Event] = []
        self.num_commands = 0
        self.has_refused = False
        self.deviations: list[Deviation] = []

    def play(self, line: int, entry: Entry) -> None:
        match entry:
            case Noted():
                return
            case Reached() | Failed():
                self._await(entry)
            case Faulted(command, FaultKind.FAILED):
                if self._hooks.fail_next is not None:
                    self._hooks.fail_next()
                    self._ask(line, command, is_failing=True)
            case Faulted():
                pass  # nothing of it happened
            case Refused(asked, error, _):
                self.has_refused = True
                self._ask(line, asked, recorded=error)
            case _:
                self._ask(line, entry)
        if not isinstance(entry, Refused):
            self._state.apply(entry)

    def digest_card(self) -> Iterator[RunDigest]:
        """By the device, once everything is over. Eight bytes of staging carry each of them out."""
        if self._state.sizes.staging_bytes < WORD_BYTES:
            return
        for stream in Stream:
            self._finish(stream, f"replayed {stream}")
        target = HostExtent(HostSpace.STAGING, 0, WORD_BYTES)
        for index, (owner, extent) in enumerate(self._defined()):
            self._device.submit((Digest(Stream.VERIFIER, Access(extent, owner), target),))
            self._finish(Stream.VERIFIER, f"digest {index}")
            yield RunDigest(owner, extent, int.from_bytes(self._device.host(target), "little"))

    def _defined(self) -> Iterator[tuple[str, Extent]]:
        """Every run of defined bytes of one owner, whatever they are called, cut where a segment ends."""
        segment_bytes = self._state.sizes.segment_bytes
        for owner, run in self._runs():
            at = run.offset_bytes
            while at < run.end_bytes:
                end = min(run.end_bytes, (at // segment_bytes + 1) * segment_bytes)
                yield owner, Extent(at, end - at)
                at = end

    def _runs(self) -> Iterator[tuple[str, Extent]]:
        for start, end, owner in self._state.owners:
            first: int | None = None
            last = start
            for at, stop, content in self._state.contents.over(start, end):
                if content is None or not owner:
                    if first is not None:
                        yield owner, Extent(first, last - first)
                    first = None
                    continue
                first = at if first is None else first
                last = stop
            if first is not None:
                yield owner, Extent(first, last - first)

    def _finish(self, stream: Stream, tag: str) -> None:
        self._device.submit((Notify(stream, tag),))
        self._await(Reached(tag))

    def _ask(self, line: int, asked: Asked, *, recorded: str = "", is_failing: bool = False) -> None:
        """`is_failing`: nobody looks at what a command does that will fail, and no program of it runs."""
        try:
            if self._is_watched and not is_failing:
                self._do_watched(line, asked)
            else:
                self._do(asked)
        except DeviceError as error:
            found, message = type(error).__name__, str(error)
        else:
            found, message = "", ""
        if found or recorded:
            self.deviations.append(Deviation(line, asked, recorded, found, message))

    def _do(self, asked: Asked) -> None:
        match asked:
            case Captured(name, launches):
                self._device.capture(name, [_playable(launch, lane_of_graph(name)) for launch in launches])
            case HostAccess(extent, digest):
                view = self._device.host(extent)
                if extent.space is not HostSpace.PACK:
                    view[:] = pattern(extent.size_bytes, int(digest or "0", 16))
            case Launch():
                self._submit(_playable(asked, asked.stream))
            case _:
                self._submit(asked)

    def _do_watched(self, line: int, asked: Asked) -> None:
        looks = looks_of(asked, self._state)
        self._look(line, asked, looks.before)
        if looks.num_marks:  # ahead of it: of a graph that is refused, the nodes before the one to blame have run
            self.lines.setdefault(looks.lane, []).extend([line] * looks.num_marks)
        self._do(asked)
        self._look(line, asked, looks.after)

    def _look(self, line: int, asked: Asked, accesses: tuple[Access, ...]) -> None:
        if accesses:
            assert isinstance(asked, Launch | GraphLaunch | Copy | Digest), asked
            look = Launch(asked.stream, LOOK, cast(Any, None), accesses, ())
            self._device.submit((_playable(look, asked.stream),))
            self.lines.setdefault(asked.stream, []).append(line)

    def _submit(self, command: Command) -> None:
        self.num_commands += 1
        self._device.submit((command,))

    def _await(self, event: Event) -> None:
        """Take what the device reports, until it is this. A failure is any failure: nobody knows which words a device
        has for it."""
        while True:
            known = next((told for told in self._told if _is_same(told, event)), None)
            if known is not None:
                self._told.remove(known)
                return
            self._hooks.tell(event)
            events = self._device.completions()
            self._told += events
            if not events:
                self._hooks.pause()


def _is_same(told: Event, event: Event) -> bool:
    return told == event if isinstance(event, Reached) else isinstance(told, Failed)


def _playable(launch: Launch, lane: str) -> Launch:
    reads = tuple(read.extent for read in launch.reads if isinstance(read, Access))
    # The device does not look inside; the programs that a replay brings along know this one.
    args = cast(Any, ReplayArgs(reads, tuple(write.extent for write in launch.writes), lane))
    return replace(launch, args=args)


def program_names(trace: CommandTrace) -> frozenset[str]:
    """Everything that a device must have a program for."""
    names = {LOOK}
    for entry in trace.entries:
        asked = entry.command if isinstance(entry, Faulted) else entry.asked if isinstance(entry, Refused) else entry
        nodes = asked.launches if isinstance(asked, Captured) else (asked,)
        names |= {node.program for node in nodes if isinstance(node, Launch)}
    return frozenset(names)
