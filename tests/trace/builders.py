"""Traces to test with: strategies for every kind of entry, and recorded worlds."""

from functools import cache
from pathlib import Path
from typing import cast

from hypothesis import strategies as st

from sim.world.decisions import Restart
from sim.world.recording import Recorded, record_commands
from sim.world.trace import read_trace
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
    TableRead,
    TableVersion,
    Transfer,
    Unmap,
    Wait,
)
from strata.core.events import Failed, Reached
from strata.core.extent import Extent, HostExtent, HostSpace
from strata.core.programs import ProgramArgs
from strata.trace.command_trace import CardSizes
from strata.trace.entries import Captured, Entry, Faulted, FaultKind, HostAccess, Noted, Refused, ScalarArgs
from strata.trace.places import Place, Places

REGRESS = Path(__file__).parents[1] / "regress"
SIZES = CardSizes(arena_bytes=4096, segment_bytes=512, pack_bytes=1000, staging_bytes=512, parked_bytes=600)
PLACES = Places(
    [
        Place("weights", Extent(0, 700)),
        Place("kv", Extent(700, 300)),
        Place("cache", Extent(1024, 3072)),
        Place("pack/blob 0 1", HostExtent(HostSpace.PACK, 10, 90)),
        Place("pack/blob 0 2", HostExtent(HostSpace.PACK, 100, 90)),
        Place("staging/result", HostExtent(HostSpace.STAGING, 0, 64)),
    ]
)

NAMES = st.text(max_size=6)
NUMBERS = st.integers(0, 5000)
STREAMS = st.sampled_from(Stream)
EXTENTS = st.builds(Extent, NUMBERS, NUMBERS)
HOST = st.builds(HostExtent, st.sampled_from(HostSpace), NUMBERS, NUMBERS)
ACCESSES = st.builds(Access, EXTENTS, NAMES, st.none() | NAMES)
DIGESTS = st.text("0123456789abcdef", min_size=16, max_size=16) | st.just("")
ARGS = st.builds(
    lambda layer, rows, experts: cast(ProgramArgs, ScalarArgs(layer, rows, experts)),
    st.none() | NUMBERS,
    st.none() | NUMBERS,
    st.none() | st.lists(NUMBERS, max_size=3).map(tuple),
)


@st.composite
def _pairs(draw: st.DrawFn) -> CopyPair:
    access = draw(ACCESSES)
    host = HostExtent(draw(st.sampled_from(HostSpace)), draw(NUMBERS), access.extent.size_bytes)
    return CopyPair(host, access) if draw(st.booleans()) else CopyPair(access, host)


LAUNCHES = st.builds(
    Launch,
    STREAMS,
    NAMES,
    ARGS,
    st.lists(ACCESSES | st.builds(TableRead, NUMBERS), max_size=3).map(tuple),
    st.lists(ACCESSES, max_size=3).map(tuple),
)
VERSIONS = st.none() | st.builds(TableVersion, NUMBERS, st.lists(ACCESSES, max_size=2).map(tuple))
COMMANDS = st.one_of(
    st.builds(Map, NUMBERS, EXTENTS),
    st.builds(Unmap, EXTENTS),
    st.builds(Transfer, EXTENTS, NAMES, NAMES, st.booleans()),
    st.builds(Copy, STREAMS, st.lists(_pairs(), min_size=1, max_size=3).map(tuple), VERSIONS),
    st.builds(Fill, STREAMS, ACCESSES, st.integers(0, 255)),
    st.builds(Digest, STREAMS, ACCESSES, st.builds(HostExtent, st.just(HostSpace.STAGING), NUMBERS, st.just(8))),
    st.builds(Record, STREAMS, NAMES),
    st.builds(Wait, STREAMS, NAMES),
    LAUNCHES,
    st.builds(GraphLaunch, STREAMS, NAMES, NUMBERS),
    st.builds(Notify, STREAMS, NAMES),
)
CAPTURES = st.builds(Captured, NAMES, st.lists(LAUNCHES, min_size=1, max_size=2).map(tuple))
ASKED = COMMANDS | CAPTURES | st.builds(HostAccess, HOST, DIGESTS)
ENTRIES: st.SearchStrategy[Entry] = st.one_of(
    ASKED,
    st.builds(Reached, NAMES),
    st.builds(Failed, NAMES, st.none(), st.booleans()),
    st.builds(Faulted, COMMANDS, st.sampled_from(FaultKind)),
    st.builds(Refused, ASKED, NAMES, NAMES),
    st.builds(Noted, NAMES, st.dictionaries(NAMES, NUMBERS | NAMES, max_size=2)),
)


def is_one_cards(path: Path) -> bool:
    """Whether the commands of a kept trace are one card's from start to end: of one stage, and never started anew."""
    trace = read_trace(path.read_text(encoding="utf-8"))
    return not trace.geometry.splits and not any(isinstance(each, Restart) for each in trace.decisions)


RECORDABLE = [path for path in sorted(REGRESS.glob("*.jsonl")) if is_one_cards(path)]


@cache
def recorded(name: str) -> Recorded:
    """The world of a kept trace, run through the core as it is."""
    return record_commands(read_trace((REGRESS / f"{name}.jsonl").read_text(encoding="utf-8")), {"decisions": name})
