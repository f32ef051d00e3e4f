"""A tiny card and short ways to write commands. Geometry with nothing in common: segments of 8 bytes, odd extents."""

from collections.abc import Sequence
from typing import Any

from sim.device import SimDevice, describe_twin
from sim.symbolic import SymbolicPayload
from strata.core.commands import (
    Access,
    Command,
    Copy,
    CopyPair,
    Fill,
    GraphLaunch,
    Launch,
    Map,
    Notify,
    Stream,
    TableRead,
    TableVersion,
    Transfer,
)
from strata.core.extent import Extent, HostExtent, HostSpace

SEGMENT, ARENA, PACK, STAGING, PARKED = 8, 56, 31, 23, 29
PROMPT, COPY, VERIFIER, DRAFTER = Stream.PROMPT, Stream.COPY, Stream.VERIFIER, Stream.DRAFTER


def make_card(**options: Any) -> SimDevice:
    """Symbolic, sealed, nothing mapped."""
    description = describe_twin(
        arena_bytes=ARENA, segment_bytes=SEGMENT, pack_bytes=PACK, staging_bytes=STAGING, parked_bytes=PARKED
    )
    card = SimDevice(description, {"work": lambda memory, args: None}, SymbolicPayload(description), **options)
    card.seal()
    return card


def make_owned_card(owner: str = "kv", **options: Any) -> SimDevice:
    """The first four segments mapped and owned by `owner`, staging written by the host."""
    card = make_card(**options)
    card.submit([Map(index, Extent(index * SEGMENT, SEGMENT)) for index in range(4)])
    card.submit([Transfer(Extent(0, 4 * SEGMENT), "", owner)])
    card.host(staging(0, STAGING))
    return card


def at(start: int, end: int, owner: str = "kv", content: str | None = None) -> Access:
    return Access(Extent(start, end - start), owner, content)


def pack(start: int, end: int) -> HostExtent:
    return HostExtent(HostSpace.PACK, start, end - start)


def staging(start: int, end: int) -> HostExtent:
    return HostExtent(HostSpace.STAGING, start, end - start)


def parked(start: int, end: int) -> HostExtent:
    return HostExtent(HostSpace.PARKED, start, end - start)


def fill(target: Access, stream: Stream = PROMPT) -> Fill:
    return Fill(stream, target, 0)


def copy(
    source: Access | HostExtent,
    target: Access | HostExtent,
    stream: Stream = COPY,
    publishes: TableVersion | None = None,
) -> Copy:
    return Copy(stream, (CopyPair(source, target),), publishes)


def work(
    reads: Sequence[Access | TableRead] = (), writes: Sequence[Access] = (), stream: Stream = PROMPT, args: Any = None
) -> Launch:
    return Launch(stream, "work", args, tuple(reads), tuple(writes))


def replay(graph: str, stream: Stream = VERIFIER, version: int = 0) -> GraphLaunch:
    return GraphLaunch(stream, graph, version)


def finish(card: Any, *streams: Stream) -> None:
    """The host learns that everything issued on `streams` is over."""
    card.submit([Notify(stream, f"done {stream}") for stream in streams])
    card.completions()


def run_all(card: SimDevice, *commands: Command) -> None:
    for command in commands:
        card.submit([command])


def run_ordered(card: SimDevice, *commands: Command) -> None:
    """One by one, each over and known to the host before the next: order cannot be what is wrong."""
    for command in commands:
        card.submit([command])
        finish(card, *Stream)
