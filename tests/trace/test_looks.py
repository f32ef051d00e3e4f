"""What is looked at, what is counted before it, and where two replays part."""

from dataclasses import replace

import pytest

from sim.world.plain_bytes import PlainBytes
from sim.world.recording import fill_plainly, replay_on_twin
from strata.core.commands import (
    Access,
    Copy,
    CopyPair,
    Digest,
    Fill,
    GraphLaunch,
    Launch,
    Stream,
    TableRead,
    TableVersion,
)
from strata.core.extent import Extent, HostExtent, HostSpace
from strata.trace.card_state import CardState
from strata.trace.digest import positional_digest
from strata.trace.entries import Captured
from strata.trace.fingerprint import fingerprint_programs
from strata.trace.looks import Looks, looks_of
from strata.trace.mark_space import mark_space_of
from strata.trace.marks import Difference, Step, first_difference, marks_by_step
from strata.trace.replay import program_names
from tests.trace.builders import SIZES, recorded

COPY, VERIFIER = Stream.COPY, Stream.VERIFIER
ENTRY, TABLE = Access(Extent(1024, 90), "cache", "blob 0 1"), Access(Extent(0, 64), "table")
STAGED = HostExtent(HostSpace.STAGING, 0, 64)
UPLOAD = Copy(COPY, (CopyPair(STAGED, TABLE),), TableVersion(4, (ENTRY,)))
READER = Launch(VERIFIER, "experts", None, (TableRead(4),), ())  # type: ignore[arg-type]


def after(*entries) -> CardState:  # type: ignore[no-untyped-def]
    state = CardState(SIZES)
    for entry in entries:
        state.apply(entry)
    return state


@pytest.mark.parametrize(
    ("asked", "looks"),
    [
        (UPLOAD, Looks((), (TABLE, ENTRY))),
        (Copy(COPY, (CopyPair(TABLE, STAGED),)), Looks((TABLE,))),
        (Digest(COPY, TABLE, replace(STAGED, size_bytes=8)), Looks((TABLE,))),
        (READER, Looks((ENTRY,), (), VERIFIER, 1)),
        (replace(READER, reads=(TABLE, TableRead(3))), Looks((), (), VERIFIER, 1)),
        (GraphLaunch(VERIFIER, "window", 4), Looks((ENTRY,), (), "graph window", 2)),
        (GraphLaunch(VERIFIER, "window", 5), Looks((), (), "graph window", 2)),
        (GraphLaunch(VERIFIER, "unknown", 4), Looks((), (), "graph unknown", 0)),
        (Fill(COPY, TABLE, 1), Looks()),
    ],
)
def test_looks_are_at_what_is_taken_left_and_named(asked: Launch, looks: Looks) -> None:
    assert looks_of(asked, after(UPLOAD, Captured("window", (READER, READER)))) == looks


@pytest.mark.parametrize("name", ["refill_cannot_be_repeated", "failed_event_ignored"])
def test_there_is_room_for_all_that_a_watched_replay_notes(name: str) -> None:
    trace = recorded(name).commands
    space = mark_space_of(trace)
    rows, marks = set(), dict.fromkeys(space.marks, 0)

    def fingerprint(memory, args) -> None:  # type: ignore[no-untyped-def]
        rows.add((args.reads, args.writes))
        marks[args.lane] += 1
        for extent in args.writes:
            fill_plainly(memory.write(extent), 1)

    found = replay_on_twin(
        trace, PlainBytes, dict.fromkeys(program_names(trace), fingerprint), fill_pack=fill_plainly, is_watched=True
    )
    assert found.deviations == ()
    assert {lane: len(lines) for lane, lines in found.lines.items()} == {lane: n for lane, n in marks.items() if n}
    assert all(number <= space.marks[lane] for lane, number in marks.items())
    assert 0 < sum(2 + 2 * len(reads + writes) for reads, writes in rows) <= space.row_words


def test_marks_go_by_line_and_a_lane_may_be_short() -> None:
    lines = {"copy": [4, 4, 9], "graph window": [12, 12, 15, 15]}
    assert marks_by_step(lines, {"copy": [1, 2, 3], "graph window": [5, 6, 7]}) == {
        Step(4, "copy", 0): 1,
        Step(4, "copy", 1): 2,
        Step(9, "copy", 0): 3,
        Step(12, "graph window", 0): 5,
        Step(12, "graph window", 1): 6,
        Step(15, "graph window", 0): 7,
    }


def test_the_first_difference_is_the_first_in_the_trace() -> None:
    right = {Step(4, "verifier", 0): 1, Step(2, "prompt", 0): 2, Step(9, "copy", 1): 3}
    assert first_difference(right, dict(right)) is None
    wrong = right | {Step(9, "copy", 1): 8, Step(4, "verifier", 0): 7}
    assert first_difference(right, wrong) == Difference(Step(4, "verifier", 0), 1, 7)
    assert first_difference(right, wrong, before_line=4) is None
    assert first_difference(right, {}) == Difference(Step(2, "prompt", 0), 2, None)


def test_watching_changes_neither_what_is_refused_nor_what_is_left() -> None:
    trace = recorded("refill_cannot_be_repeated").commands
    programs = fingerprint_programs(program_names(trace), digest=positional_digest, fill=fill_plainly)
    plain, watched = (
        replay_on_twin(trace, PlainBytes, programs, fill_pack=fill_plainly, is_watched=is_watched)
        for is_watched in (False, True)
    )
    assert plain.deviations == watched.deviations == () and plain.digests == watched.digests
    assert plain.lines == {} and plain.num_commands == watched.num_commands
