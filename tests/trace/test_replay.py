"""What was recorded is played again: the same refusals, the same digests, from any cut on."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.planted import MUTANTS
from fuzz.strength import run_child
from sim.world.recording import replay_plainly
from strata.core.commands import Access, Copy, CopyPair, Record, Wait
from strata.core.events import Reached
from strata.core.extent import HostExtent
from strata.trace.card_state import CardState
from strata.trace.command_trace import CommandTrace, read_trace, write_trace
from strata.trace.entries import Entry, Faulted, Noted, Refused
from strata.trace.prelude import prelude
from strata.trace.replay import Replayed, ReplayStalled
from tests.trace.builders import RECORDABLE, REGRESS, recorded

LENDS = "refill_cannot_be_repeated"
FAILS = ("session_survives_failure", "recovery_stops_after_first_failure", "failed_event_ignored")


def without(trace: CommandTrace, index: int) -> CommandTrace:
    return replace(trace, entries=(*trace.entries[:index], *trace.entries[index + 1 :]))


def first(trace: CommandTrace, kind: type[Entry], **values: object) -> int:
    return next(
        i
        for i, e in enumerate(trace.entries)
        if isinstance(e, kind) and all(getattr(e, name) == value for name, value in values.items())
    )


@pytest.mark.slow
@pytest.mark.parametrize("path", RECORDABLE[::7], ids=lambda path: path.stem)
def test_the_commands_of_a_world_that_holds_are_taken_by_a_twin_without_a_core(path: Path) -> None:
    found = recorded(path.stem)
    assert found.failure is None
    again = replay_plainly(read_trace(write_trace(found.commands)))
    assert again.deviations == () and len(again.digests) > 3
    assert again.num_entries == len(found.commands.entries)


@pytest.mark.parametrize("name", FAILS)
def test_planted_failures_are_planted_again(name: str) -> None:
    found = recorded(name).commands
    assert any(isinstance(entry, Faulted) for entry in found.entries)
    assert replay_plainly(found).deviations == ()


def digests_but_for(found: Replayed, other: Replayed) -> set[str]:
    assert not found.deviations and not other.deviations
    return {run.owner for run in set(found.digests) ^ set(other.digests)}


@pytest.mark.slow
def test_one_copy_from_another_place_changes_what_all_who_read_it_leave() -> None:
    """It says nothing of its content, so that the twin's names cannot tell: the bytes do."""
    trace = recorded(LENDS).commands
    index, copy, at = next(
        (i, entry, at)
        for i, entry in enumerate(trace.entries)
        if isinstance(entry, Copy)
        for at, pair in enumerate(entry.pairs)
        if isinstance(pair.target, Access) and pair.target.content == "weight blk.0"
    )
    source, target = copy.pairs[at].source, copy.pairs[at].target
    assert isinstance(source, HostExtent) and isinstance(target, Access)

    def with_source(moved: HostExtent) -> CommandTrace:
        pair = CopyPair(moved, replace(target, content=None))
        pairs = (*copy.pairs[:at], pair, *copy.pairs[at + 1 :])
        return replace(trace, entries=(*trace.entries[:index], replace(copy, pairs=pairs), *trace.entries[index + 1 :]))

    right = replay_plainly(with_source(source))
    wrong = replay_plainly(with_source(replace(source, offset_bytes=source.offset_bytes + 1)))
    assert {"weights", "kv", "verifier"} <= digests_but_for(right, wrong)
    assert digests_but_for(right, replay_plainly(trace)) == set()


@pytest.mark.parametrize(
    ("mutant", "error"),
    [
        ("reader_skips_wait", "OrderError"),
        ("table_not_cleared", "TableRule"),
        ("refill_short_by_one", "UndefinedRead"),
        ("read_lends_no_slot", "OwnershipError"),
    ],
)
@pytest.mark.slow
def test_the_commands_of_a_planted_bug_are_refused_again_for_the_same_reason(
    mutant: str, error: str, tmp_path: Path
) -> None:
    out = tmp_path / "commands.jsonl"
    report = run_child([MUTANTS / f"{mutant}.py"], traces=[REGRESS / f"{mutant}.jsonl"], record=out)
    assert report["detected"] and report["kind"] == error
    trace = read_trace(out.read_text(encoding="utf-8"))
    assert trace.origin == {"decisions": f"{mutant}.jsonl", "mutants": [mutant]}
    (found,) = replay_plainly(trace).deviations
    recorded_there = next(entry for entry in trace.entries if isinstance(entry, Refused))
    assert (found.recorded, found.found, found.message) == (error, error, recorded_there.message)
    assert trace.entries[found.line - 2] == recorded_there


def test_a_wait_that_is_taken_out_is_refused_where_the_bytes_are_touched() -> None:
    trace = recorded(LENDS).commands
    index = max(i for i, e in enumerate(trace.entries) if isinstance(e, Wait) and e.event == "back")
    (found,) = replay_plainly(without(trace, index)).deviations
    assert (found.recorded, found.found) == ("", "OrderError")
    assert found.line - 2 > index - 1


def test_a_refusal_that_does_not_come_again_is_told() -> None:
    trace = recorded(LENDS).commands
    index = first(trace, Record)
    record = trace.entries[index]
    assert isinstance(record, Record)
    changed = (*trace.entries[:index], Refused(record, "OrderError", "as it was"), *trace.entries[index + 1 :])
    found = replay_plainly(replace(trace, entries=changed))
    assert [(d.line, d.recorded, d.found) for d in found.deviations] == [(index + 2, "OrderError", "")]
    assert found.digests == ()


def test_a_report_that_does_not_come_stalls_instead_of_hanging() -> None:
    trace = recorded(LENDS).commands
    with pytest.raises(ReplayStalled, match="nothing to report"):
        replay_plainly(replace(trace, entries=(*trace.entries, Reached("never"))))


def test_the_host_learns_no_more_than_it_did_then() -> None:
    """Without the report, staging may not be written again; that the twin knows it is over does not help."""
    trace = recorded(LENDS).commands
    index = max(i for i, e in enumerate(trace.entries) if isinstance(e, Reached))
    late = [i for i, e in enumerate(trace.entries) if isinstance(e, Reached)]
    found = [replay_plainly(without(trace, i)).deviations for i in (late[0], index)]
    assert found[0] and found[0][0].found == "OrderError"


@pytest.mark.slow
@settings(max_examples=12)
@given(cut=st.integers(0, 100_000), name=st.sampled_from([LENDS, "reader_skips_wait", "reply_not_in_session"]))
def test_a_trace_can_be_cut_anywhere(cut: int, name: str) -> None:
    """What is cut off is replaced by the commands that lead to the same state, and the rest is taken as it was."""
    trace = recorded(name).commands
    state = CardState(trace.sizes)
    cut %= len(trace.entries)
    for entry in trace.entries[:cut]:
        state.apply(entry)
    rest = tuple(entry for entry in trace.entries[cut:] if not isinstance(entry, Noted))
    found = replay_plainly(replace(trace, entries=(*prelude(state, trace.places), *rest)))
    assert found.deviations == ()
    whole = replay_plainly(trace)
    assert {(run.owner, run.extent) for run in found.digests} == {(run.owner, run.extent) for run in whole.digests}
