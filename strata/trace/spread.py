"""A trace on a card that maps more at a time than the trace's segments have.

A world's segment has 1 to 16 KiB, a card maps 2 MiB at a time. So each segment of the trace has one of the card's to
itself, and only its first bytes are used:

    trace    | segment 0 | segment 1 | segment 2 |            byte o
    card     | segment 0 |     ...   | segment 1 |    ...     o // segment * stride + o % segment

Every map, unmap and alias is then one of the card's own, and every byte that the trace touches is one byte there: the
volumes stay the trace's, and so do the digests. Bytes that cross the edge of a segment are several pieces.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from strata.core.commands import (
    MAX_COPY_GROUP,
    Access,
    Command,
    Copy,
    CopyPair,
    Digest,
    Fill,
    Launch,
    Map,
    TableVersion,
    Transfer,
    Unmap,
)
from strata.core.events import Event
from strata.core.extent import Extent, HostExtent
from strata.device import Device, DeviceDescription
from strata.trace.around import DeviceAround
from strata.trace.command_trace import CardSizes


@dataclass(frozen=True, slots=True)
class Spread:
    """`segment_bytes` of a trace in every `stride_bytes` of a card, which are at least as many."""

    segment_bytes: int
    stride_bytes: int

    def sizes(self, sizes: CardSizes) -> CardSizes:
        """Of the card on which a trace of `sizes` is played."""
        return replace(
            sizes,
            arena_bytes=self._on_card(sizes.arena_bytes),
            segment_bytes=self.stride_bytes,
            behind_bytes=self._on_card(sizes.behind_bytes),
        )

    def pieces(self, extent: Extent) -> tuple[Extent, ...]:
        """Of the card, in order; all of the trace's bytes. Only nothing is an empty piece."""
        if self.segment_bytes == self.stride_bytes:
            return (extent,)
        if not extent.size_bytes:
            return (Extent(self._on_card(extent.offset_bytes), 0),)
        return tuple(self._pieces(extent))

    def segment(self, extent: Extent) -> Extent:
        """The whole segment of the card for one of the trace. What is no segment stays none, and the card says so."""
        if extent.size_bytes != self.segment_bytes or extent.offset_bytes % self.segment_bytes:
            return extent
        return Extent(self._on_card(extent.offset_bytes), self.stride_bytes)

    def _on_card(self, size_bytes: int) -> int:
        return size_bytes // self.segment_bytes * self.stride_bytes

    def _pieces(self, extent: Extent) -> Iterator[Extent]:
        at = extent.offset_bytes
        while at < extent.end_bytes:
            inside = at % self.segment_bytes
            size = min(self.segment_bytes - inside, extent.end_bytes - at)
            yield Extent(self._on_card(at - inside) + inside, size)
            at += size


class SpreadDevice(DeviceAround):
    """Takes what a trace says and asks `inner`, a card of `spread.sizes`, for it. Arguments of launches pass as they
    are: programs know where bytes lie. Of a digest that crosses an edge the digest of the last piece remains; it lies
    in staging, where a replay writes before it reads."""

    def __init__(self, inner: Device, spread: Spread, sizes: CardSizes) -> None:
        super().__init__(inner)
        self._spread, self._sizes = spread, sizes

    def describe(self) -> DeviceDescription:
        sizes = self._sizes
        return replace(
            self._inner.describe(),
            arena_bytes=sizes.arena_bytes,
            segment_bytes=sizes.segment_bytes,
            behind_bytes=sizes.behind_bytes,
        )

    def submit(self, commands: Sequence[Command]) -> None:
        for command in commands:
            self._inner.submit(tuple(self._spread_out(command)))

    def completions(self) -> Sequence[Event]:
        return self._inner.completions()

    def capture(self, name: str, launches: Sequence[Launch]) -> None:
        self._inner.capture(name, [self._launch(launch) for launch in launches])

    def _spread_out(self, command: Command) -> Iterator[Command]:
        match command:
            case Launch():
                yield self._launch(command)
            case Copy():
                yield from self._copies(command)
            case Fill():
                yield from (replace(command, target=part) for part in self._parts(command.target))
            case Digest():
                yield from (replace(command, source=part) for part in self._parts(command.source))
            case Map() | Unmap():
                yield replace(command, extent=self._spread.segment(command.extent))
            case Transfer():
                yield from (replace(command, extent=piece) for piece in self._spread.pieces(command.extent))
            case _:
                yield command

    def _launch(self, launch: Launch) -> Launch:
        reads = [part for read in launch.reads for part in (self._parts(read) if isinstance(read, Access) else [read])]
        writes = [part for write in launch.writes for part in self._parts(write)]
        return replace(launch, reads=tuple(reads), writes=tuple(writes))

    def _copies(self, command: Copy) -> Iterator[Copy]:
        """Groups of at most as many pairs as one copy may have; the last one publishes."""
        pairs = [part for pair in command.pairs for part in self._pairs(pair)]
        for first in range(0, len(pairs), MAX_COPY_GROUP):
            group = tuple(pairs[first : first + MAX_COPY_GROUP])
            is_last = first + MAX_COPY_GROUP >= len(pairs)
            yield Copy(command.stream, group, self._version(command.publishes) if is_last else None)

    def _pairs(self, pair: CopyPair) -> Iterator[CopyPair]:
        done = 0
        access = pair.target if isinstance(pair.target, Access) else pair.source
        host = pair.source if isinstance(pair.target, Access) else pair.target
        assert isinstance(access, Access) and isinstance(host, HostExtent), pair
        for part in self._parts(access):
            size = part.extent.size_bytes
            there = host.part(offset_bytes=done, size_bytes=size)
            yield CopyPair(there, part) if isinstance(pair.target, Access) else CopyPair(part, there)
            done += size

    def _version(self, published: TableVersion | None) -> TableVersion | None:
        if published is None:
            return None
        return replace(published, entries=tuple(part for entry in published.entries for part in self._parts(entry)))

    def _parts(self, access: Access) -> list[Access]:
        return [replace(access, extent=piece) for piece in self._spread.pieces(access.extent)]
