"""Virtual time: when each command would be over on a card, by a small table of durations.

    host     |issue|issue|...........waits...........|issue|
    prompt      |launch|--- event ---|launch|                  a stream does one thing after the other
    copy           |== copy ==||== copy ==|                    one copy each way at a time, whichever was ready first;
                                                               a program's reads of the pack are one too, behind it

Nothing begins before the host has issued it, so what is issued is carried out only as far as the host has waited: what
it issues then may still come between. Programs of several streams do not slow each other down. A clock orders nothing
and judges nothing: a device that has one does what it does without.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sim.graphs import Graph
from strata.core.commands import (
    Command,
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
    Transfer,
    Unmap,
    Wait,
    size_of,
)
from strata.core.extent import HostExtent, HostSpace
from strata.core.programs import ExpertsArgs, ProgramArgs

NS_PER_US = 1_000
TO_DEVICE, TO_HOST = "to device", "to host"


@dataclass(frozen=True, slots=True)
class ProgramPace:
    """What one launch of a program takes: `fixed_ns`, `row_ns` for each row, and `context_ns` for each row and each
    token behind which it stands. `host_ns`: what the host takes to issue it, where that is not the pace's for any."""

    fixed_ns: int
    row_ns: float = 0
    host_ns: int | None = None
    context_ns: float = 0.0


@dataclass(frozen=True, slots=True)
class Pace:
    """Durations, by default those of one H200 (docs/lending.md 3, bench/results): a pinned copy, one from memory that
    is not (`strata/cuda/pinned.py`), a kernel that reads pinned memory, what a copy takes beside its bytes, an eager
    launch as the host sees it, a node of a graph, device memory, a segment of 64 MiB mapped or unmapped, and what the
    host takes for each pair of a copy. What a driver call takes otherwise is not in it."""

    programs: Mapping[str, ProgramPace]
    link_bytes_per_us: int = 55_000
    pageable_bytes_per_us: int = 7_000
    pack_read_bytes_per_us: int = 51_000
    copy_ns: int = 2_500
    launch_ns: int = 16_700
    graph_node_ns: int = 1_000
    memory_bytes_per_us: int = 4_000_000
    map_ns: int = 56_000
    unmap_ns: int = 59_000
    pair_host_ns: int = 0


@dataclass(frozen=True, slots=True)
class Times:
    """`now_ns`: the host's. Of each stream, by what has begun: when it is through, how long it worked, and how long it
    stood still for events of others."""

    now_ns: int
    over_ns: Mapping[Stream, int]
    busy_ns: Mapping[Stream, int]
    stalled_ns: Mapping[Stream, int]


@dataclass(slots=True, eq=False)
class Item:
    """Something that a stream does, from `issued_ns` on. `link`: the direction it needs, "" for none; `after`: the
    record that it waits for. `over_ns` is None until it has begun."""

    issued_ns: int
    duration_ns: int = 0
    link: str = ""
    after: "Item | None" = None
    over_ns: int | None = None


class VirtualClock:
    """Told of every command in the order of submission. `context_tokens`: of the request, ahead of the rows of what is
    submitted next, by whoever knows it."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self.context_tokens = 0
        self._now = 0
        self._queues: dict[Stream, deque[Item]] = {stream: deque() for stream in Stream}
        self._over = dict.fromkeys(Stream, 0)
        self._busy = dict.fromkeys(Stream, 0)
        self._stalled = dict.fromkeys(Stream, 0)
        self._link_over = {TO_DEVICE: 0, TO_HOST: 0, "": 0}
        self._events: dict[str, Item] = {}
        self._notices: dict[str, Item] = {}

    def times(self) -> Times:
        return Times(self._now, dict(self._over), dict(self._busy), dict(self._stalled))

    def charge(
        self,
        command: Command,
        programs: Sequence[tuple[str, int]],
        *,
        pack_read_bytes: int,
        pinned_bytes: int | None = None,
    ) -> None:
        """`programs`: name and rows of a launch, or of every node of a graph; `pack_read_bytes`: what they viewed in
        the pack, of which the first `pinned_bytes` are pinned, None: all."""
        pace = self._pace
        match command:
            case Launch(stream):
                host_ns = pace.programs[command.program].host_ns
                self._now += pace.launch_ns if host_ns is None else host_ns
                self._issue(stream, self._computing(programs))
                self._issue_reads(stream, pack_read_bytes)
            case GraphLaunch(stream):
                self._now += pace.launch_ns
                nodes_ns = len(programs) * pace.graph_node_ns
                self._issue(stream, nodes_ns + self._computing(programs))
                self._issue_reads(stream, pack_read_bytes)
            case Copy(stream, pairs):
                for pair in pairs:
                    self._now += pace.pair_host_ns
                    link = TO_HOST if isinstance(pair.target, HostExtent) else TO_DEVICE
                    is_pinned = not _is_pageable(pair, pinned_bytes)
                    bytes_per_us = pace.link_bytes_per_us if is_pinned else pace.pageable_bytes_per_us
                    item = self._issue(stream, pace.copy_ns + _ns(size_of(pair.target), bytes_per_us), link)
                    if not is_pinned:  # the host moves it, and goes on when it is through
                        self._now = max(self._now, self._await(item))
            case Fill(stream, touched) | Digest(stream, touched):
                self._issue(stream, _ns(touched.extent.size_bytes, pace.memory_bytes_per_us))
            case Record(stream, event):
                self._events[event] = self._issue(stream)
            case Wait(stream, event):
                self._issue(stream, after=self._events[event])
            case Notify(stream, tag):
                self._notices[tag] = self._issue(stream)
            case Map():
                self._now += pace.map_ns
            case Unmap():
                self._now += pace.unmap_ns
            case Transfer():
                pass  # the books' affair: nothing happens on a card

    def take(self, tag: str) -> None:
        """The host waits until the notice is there."""
        self._now = max(self._now, self._await(self._notices.pop(tag)))

    def drain(self) -> None:
        """The host waits for everything."""
        while any(self._queues.values()):
            self._begin_next()
        self._now = max(self._now, *self._over.values())

    def _await(self, item: Item) -> int:
        """When it is over."""
        while item.over_ns is None:
            self._begin_next()
        return item.over_ns

    def _issue(self, stream: Stream, duration_ns: int = 0, link: str = "", after: Item | None = None) -> Item:
        item = Item(self._now, duration_ns, link, after)
        self._queues[stream].append(item)
        return item

    def _begin_next(self) -> None:
        """Whatever may begin first begins; of two that need the link, the one that was ready first."""
        starts = []
        for number, (stream, queue) in enumerate(self._queues.items()):
            if queue and (queue[0].after is None or queue[0].after.over_ns is not None):
                ready = max(self._over[stream], queue[0].issued_ns)
                passed = 0 if queue[0].after is None else queue[0].after.over_ns or 0
                link_over = self._link_over[queue[0].link] if queue[0].link else 0
                starts.append((max(ready, passed, link_over), ready, number, stream))
        start, ready, _, stream = min(starts)
        item = self._queues[stream].popleft()
        item.over_ns = self._over[stream] = start + item.duration_ns
        self._busy[stream] += item.duration_ns
        if item.link:
            self._link_over[item.link] = item.over_ns
        if item.after is not None:
            self._stalled[stream] += start - ready

    def _issue_reads(self, stream: Stream, pack_read_bytes: int) -> None:
        if pack_read_bytes:
            self._issue(stream, _ns(pack_read_bytes, self._pace.pack_read_bytes_per_us), TO_DEVICE)

    def _computing(self, programs: Sequence[tuple[str, int]]) -> int:
        paces = [(self._pace.programs[name], rows) for name, rows in programs]
        return sum(
            pace.fixed_ns + round(rows * (pace.row_ns + pace.context_ns * (self.context_tokens + rows / 2)))
            for pace, rows in paces
        )


def work_of(command: Command, graphs: Mapping[str, Graph]) -> list[tuple[str, int]]:
    """Program and rows of a launch, or of every node of a graph; each expert that is named has all rows."""
    match command:
        case Launch():
            return [(command.program, _rows_of(command.args))]
        case GraphLaunch():
            return [(node.launch.program, _rows_of(node.launch.args)) for node in graphs[command.graph].nodes]
        case _:
            return []


def _is_pageable(pair: CopyPair, pinned_bytes: int | None) -> bool:
    source = pair.source
    is_master = isinstance(source, HostExtent) and source.space is HostSpace.PACK
    return is_master and pinned_bytes is not None and source.end_bytes > pinned_bytes  # type: ignore[union-attr]


def _rows_of(args: ProgramArgs) -> int:
    if isinstance(args, ExpertsArgs) and args.experts is not None:
        return args.rows * len(args.experts)
    return args.rows


def _ns(size_bytes: int, bytes_per_us: int) -> int:
    return -(-size_bytes * NS_PER_US // bytes_per_us)
