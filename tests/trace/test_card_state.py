"""What a trace's entries led to: byte by byte, and brought back by a prelude."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.core.commands import (
    Access,
    Copy,
    CopyPair,
    Fill,
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
from strata.trace.card_state import CardState
from strata.trace.entries import Captured, Entry, Faulted, FaultKind, HostAccess, Refused
from strata.trace.prelude import prelude
from strata.trace.runs import Runs
from tests.trace.builders import PLACES, SIZES, recorded

SIZE = 24
WRITES = st.lists(st.tuples(st.integers(0, SIZE), st.integers(0, SIZE), st.integers(0, 2)), max_size=12)


@given(writes=WRITES, start=st.integers(0, SIZE), end=st.integers(0, SIZE))
def test_runs_hold_what_a_list_of_bytes_holds(writes: list[tuple[int, int, int]], start: int, end: int) -> None:
    runs, naive = Runs(SIZE, 0), [0] * SIZE
    for low, high, value in writes:
        runs.assign(low, high, value)
        naive[low:high] = [value] * max(0, high - low)
    assert [value for low, high, value in runs for _ in range(low, high)] == naive
    assert [value for low, high, value in runs.over(start, end) for _ in range(low, high)] == naive[start:end]
    found = list(runs)
    assert all(left[2] != right[2] for left, right in pairwise(found)), found


def fill(start: int, size: int, owner: str = "cache", content: str | None = None) -> Fill:
    return Fill(Stream.PROMPT, Access(Extent(start, size), owner, content), 0)


def contents(state: CardState) -> list[tuple[int, int, str | None]]:
    return [(start, end, content[0]) for start, end, content in state.contents if content is not None]


@pytest.mark.parametrize(
    ("entry", "left"),
    [
        (Transfer(Extent(0, 100), "", "prompt"), [(100, 200, "x")]),
        (Transfer(Extent(0, 100), "", "prompt", in_place=True), [(0, 200, "x")]),
        (Unmap(Extent(0, 512)), []),
        (Faulted(fill(50, 100), FaultKind.FAILED), [(0, 50, "x"), (150, 200, "x")]),
        (Faulted(fill(50, 100), FaultKind.REFUSED), [(0, 200, "x")]),
        (Refused(fill(50, 100), "OrderError", ""), [(0, 200, "x")]),
        (fill(50, 100, content="y"), [(0, 50, "x"), (50, 150, "y"), (150, 200, "x")]),
    ],
)
def test_each_entry_does_to_contents_what_it_says(entry: Entry, left: list[tuple[int, int, str]]) -> None:
    state = CardState(SIZES)
    state.apply(fill(0, 200, content="x"))
    state.apply(entry)
    assert contents(state) == left


def test_a_table_that_is_written_over_is_forgotten() -> None:
    state = CardState(SIZES)
    source = HostExtent(HostSpace.STAGING, 0, 64)
    for version, start in ((1, 0), (2, 64), (3, 32)):
        pair = CopyPair(source, Access(Extent(start, 64), "table"))
        state.apply(Copy(Stream.VERIFIER, (pair,), TableVersion(version, ())))
    assert [table.version.version for table in state.tables] == [3]


def same(state: CardState) -> tuple[object, ...]:
    """Everything that later commands could meet, of bytes that somebody owns. What nobody named counts as defined."""
    held = [
        (first, last, content)
        for start, end, owner in state.owners
        if owner
        for first, last, content in state.contents.over(start, end)
    ]
    graphs = {name: (pinned.segments, list(pinned.owners)) for name, pinned in state.graphs.items()}
    tables = [table.version for table in state.tables]
    events = (dict(state.recorded), dict(state.pending))
    return state.segments, list(state.owners), held, graphs, tables, events


CUTS = st.integers(0, 10_000)


@given(cut=CUTS, name=st.sampled_from(["reader_skips_wait", "refill_cannot_be_repeated", "session_survives_failure"]))
def test_a_prelude_brings_back_the_state_that_was_cut_off(cut: int, name: str) -> None:
    commands = recorded(name).commands
    state = CardState(commands.sizes)
    for entry in commands.entries[: cut % len(commands.entries)]:
        state.apply(entry)
    again = CardState(commands.sizes)
    for entry in prelude(state, commands.places):
        again.apply(entry)
    assert same(again) == same(state)
    for space, runs in state.written.items():
        kept = again.written[space]
        assert [(a, b) for a, b, has in runs if has and not all(h for *_, h in kept.over(a, b))] == []


def test_segments_that_moved_between_captures_are_moved_again() -> None:
    """A graph is stale while its bytes are away, so it must be captured where it was."""
    first, second = Extent(0, 512), Extent(512, 512)
    launch_free = Captured("window", ())
    state = CardState(SIZES)
    for entry in (
        Map(0, first),
        Transfer(first, "", "verifier"),
        launch_free,
        Transfer(first, "verifier", ""),
        Unmap(first),
        Map(0, second),
        Record(Stream.COPY, "back"),
        Notify(Stream.PROMPT, "a"),
        Notify(Stream.PROMPT, "b"),
        Reached("a"),
        HostAccess(HostExtent(HostSpace.STAGING, 3, 5)),
        Copy(Stream.COPY, (CopyPair(Access(second, "kv"), HostExtent(HostSpace.PARKED, 0, 512)),)),
    ):
        state.apply(entry)
    done = list(prelude(state, PLACES))
    assert done[:6] == [
        Map(0, first),
        Transfer(first, "", "verifier"),
        launch_free,
        Unmap(first),
        Map(0, second),
        Transfer(first, "verifier", ""),
    ]
    assert done[6:] == [
        HostAccess(HostExtent(HostSpace.STAGING, 3, 5)),
        HostAccess(HostExtent(HostSpace.PARKED, 0, 512)),
        Notify(Stream.VERIFIER, "prelude"),
        Reached("prelude"),
        Record(Stream.COPY, "back"),
        Notify(Stream.PROMPT, "b"),
    ]
