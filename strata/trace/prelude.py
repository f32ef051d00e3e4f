"""The commands that bring an empty card to a state: what a trace begins with when its beginning was cut off.

    map, transfer to what each graph was captured over -> capture it -> map, transfer to the state
    -> weights from the pack, anything else filled -> what was staged -> tables -> everything over
    -> events that somebody may still wait for, notices that somebody still expects

Bytes that no pack has are filled with a constant: a trace has no payload, and a replay compares runs of itself.
"""

from collections.abc import Iterator

from strata.core.commands import (
    MAX_COPY_GROUP,
    Access,
    Copy,
    CopyPair,
    Fill,
    Map,
    Notify,
    Record,
    Stream,
    Transfer,
    Unmap,
)
from strata.core.events import Reached
from strata.core.extent import Extent, HostExtent
from strata.trace.card_state import CardState
from strata.trace.entries import Captured, Entry, HostAccess
from strata.trace.places import Places
from strata.trace.runs import Runs

FILL_VALUE = 0


def prelude(state: CardState, places: Places) -> Iterator[Entry]:
    now: dict[int, int] = {}
    owners: Runs[str] = Runs(state.owners.size_bytes, "")
    segment_bytes = state.sizes.segment_bytes
    for pinned in state.graphs.values():
        yield from _move(now, pinned.segments, segment_bytes)
        yield from _hand_over(owners, pinned.owners)
        now, owners = pinned.segments, pinned.owners
        yield Captured(pinned.captured.name, pinned.captured.launches)
    yield from _move(now, state.segments, segment_bytes)
    yield from _hand_over(owners, state.owners)
    yield from _contents(state, places)
    for space, written in state.written.items():
        for start, end, is_written in written:
            if is_written:
                yield HostAccess(HostExtent(space, start, end - start))
    for table in state.tables:
        for pair in table.pairs:
            if isinstance(pair.source, HostExtent):
                yield HostAccess(pair.source)
        yield Copy(Stream.VERIFIER, table.pairs, table.version)
    yield Notify(Stream.VERIFIER, "prelude")
    yield Reached("prelude")
    for event, stream in state.recorded.items():
        yield Record(stream, event)
    for tag, stream in state.pending.items():
        yield Notify(stream, tag)


def _move(now: dict[int, int], then: dict[int, int], segment_bytes: int) -> Iterator[Entry]:
    for offset_bytes, segment in now.items():
        if then.get(offset_bytes) != segment:
            yield Unmap(Extent(offset_bytes, segment_bytes))
    for offset_bytes, segment in then.items():
        if now.get(offset_bytes) != segment:
            yield Map(segment, Extent(offset_bytes, segment_bytes))


def _hand_over(now: Runs[str], then: Runs[str]) -> Iterator[Entry]:
    for start, end, taker in then:
        for first, last, giver in now.over(start, end):
            if giver != taker:
                yield Transfer(Extent(first, last - first), giver, taker)


def _contents(state: CardState, places: Places) -> Iterator[Entry]:
    homes = {name: home for home, name in places.manifest()}
    pairs: list[CopyPair] = []
    for start, end, content in state.contents:
        if content is None:
            continue
        (name,) = content
        for first, last, owner in state.owners.over(start, end):
            if not owner:
                continue
            target = Access(Extent(first, last - first), owner, name)
            home = homes.get(name or "")
            if home is not None and home.size_bytes == target.extent.size_bytes:
                pairs.append(CopyPair(home, target))
            else:
                yield Fill(Stream.VERIFIER, target, FILL_VALUE)
    for first in range(0, len(pairs), MAX_COPY_GROUP):
        yield Copy(Stream.VERIFIER, tuple(pairs[first : first + MAX_COPY_GROUP]))
