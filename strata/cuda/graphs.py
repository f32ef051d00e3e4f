"""Captured graphs: what they pin, and when they may be launched.

A graph pins the physical segment under every byte that its launches name. It may be launched while the same segments
are there: away under a loan it is stale, home again it is valid, and nothing is recaptured, since an address never
moves. Owners, and whether the bytes have come back, are checked by the twin alone; this body keeps no owners.

Programs run once, while their stream is captured: they may launch and allocate, but must not wait for the card or
look at results. What they reach through the address table is not pinned: that is what the table is for.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from strata.core.commands import Access, Launch, TableRead
from strata.core.errors import DeviceError
from strata.core.extent import Extent
from strata.cuda.arena import Arena, show
from strata.cuda.driver import Driver
from strata.cuda.scope import LaunchScope, Spans


@dataclass(frozen=True, slots=True)
class Pin:
    extent: Extent
    segments: tuple[int | None, ...]


@dataclass(slots=True)
class Graph:
    """`scopes` of the launches say what they viewed in the pack; `temporaries` keeps what they allocated;
    `num_unmaps` is the arena's when all pins were last seen in place."""

    name: str
    executable: Any
    pins: tuple[Pin, ...]
    scopes: tuple[LaunchScope, ...]
    reads_table: bool
    temporaries: Any
    num_unmaps: int

    @property
    def pack_read_bytes(self) -> int:
        return sum(scope.pack_read_bytes for scope in self.scopes)


def pin_launches(launches: Sequence[Launch], arena: Arena) -> tuple[Pin, ...]:
    """Raises DeviceError where some of what `launches` name is not mapped now."""
    named = [a.extent for launch in launches for a in (*launch.reads, *launch.writes) if isinstance(a, Access)]
    pins = []
    for extent in Spans(named).extents():
        arena.check_mapped(extent)
        pins.append(Pin(extent, arena.backing(extent)))
    return tuple(pins)


def check_pins(graph: Graph, arena: Arena) -> None:
    """Raises DeviceError when another segment, or none, lies under a pinned byte. A decode step asks each time, so
    nothing is looked at while nothing was unmapped: mapping alone cannot change what lies under a byte."""
    if graph.num_unmaps == arena.num_unmaps:
        return
    for pin in graph.pins:
        now = arena.backing(pin.extent)
        if now != pin.segments:
            raise DeviceError(
                f"graph={graph.name} is stale: {show(pin.extent)} was backed by segments {_list(pin.segments)} at "
                f"capture and by {_list(now)} now; bring the bytes home or capture again"
            )
    graph.num_unmaps = arena.num_unmaps


def reads_table(launches: Sequence[Launch]) -> bool:
    return any(isinstance(read, TableRead) for launch in launches for read in launch.reads)


class Capture:
    """`with Capture(driver, stream) as capture:` what is queued on `stream` inside is recorded, not run; afterwards
    `capture.executable` is its graph. When the body raises, the stream is usable again and nothing is kept."""

    def __init__(self, driver: Driver, stream: Any) -> None:
        self._driver, self._stream = driver, stream
        self.executable: Any = None

    def __enter__(self) -> "Capture":
        # Relaxed: a program may load a module or take memory, which the stricter modes forbid the whole process.
        mode = self._driver.api.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        self._driver.call("cuStreamBeginCapture", self._stream, mode)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            # The capture may be broken already, by the very error that is on its way.
            try:
                graph = self._driver.call("cuStreamEndCapture", self._stream)
            except DeviceError:
                return
            if graph is not None and int(graph):
                self._driver.call("cuGraphDestroy", graph)
            return
        graph = self._driver.call("cuStreamEndCapture", self._stream)
        try:
            self.executable = self._driver.call("cuGraphInstantiate", graph, 0)
        finally:
            self._driver.call("cuGraphDestroy", graph)


def _list(segments: tuple[int | None, ...]) -> str:
    shown = ", ".join("none" if segment is None else str(segment) for segment in segments[:8])
    return f"{shown}, ..." if len(segments) > 8 else shown
