"""Traces on a card, shown on the driver without one: hash-equal in every order, and what is wrong shows in one."""

from dataclasses import replace
from pathlib import Path

import pytest

from strata.boot_replay import play_on_card, play_on_twin
from strata.core.commands import Access, Copy, CopyPair, Stream, Wait
from strata.core.errors import ConfigError
from strata.core.events import Reached
from strata.core.extent import HostExtent
from strata.replay_card import ReplayCard
from strata.trace.command_trace import CommandTrace
from strata.trace.compared import compare_orders
from strata.trace.entries import Faulted, FaultKind
from strata.trace.order import ORDERS
from strata.trace.replay import ReplayStalled
from tests.cuda import replays
from tests.cuda.builders import fake_driver
from tests.cuda.host_fingerprint import host_fingerprint
from tests.cuda.host_views import HostViews
from tests.cuda.replays import card_on_fake, compare, record_planted
from tests.fixtures.interpreter import HAS_TRITON
from tests.trace.builders import RECORDABLE, REGRESS, recorded

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not HAS_TRITON, reason="needs triton")]

LENDS, MOVES, FAILS = "refill_cannot_be_repeated", "segments_come_home_turned", "failure_forgotten"
THREE = {name: ORDERS[name] for name in ("given", "all late", "copy late")}


def without(trace: CommandTrace, index: int) -> CommandTrace:
    return replace(trace, entries=(*trace.entries[:index], *trace.entries[index + 1 :]))


@pytest.mark.parametrize("name", [LENDS, MOVES, FAILS])
def test_a_world_that_holds_is_hash_equal(name: str) -> None:
    """Cache slots lent and refilled; segments moved behind the arena and back; failures planted on the way."""
    with card_on_fake() as card:
        found = compare(recorded(name).commands, card, THREE)
    assert not found.is_dead and not found.shows
    assert len(found.orders) == 3 and len(found.twin.marks) > 40
    assert {order.num_steps for order in found.orders} == {len(found.twin.marks)}
    assert all(len(order.replayed.digests) > 10 for order in found.orders)


def test_a_failure_that_was_planted_is_planted_again() -> None:
    faulted = [e for e in recorded(FAILS).commands.entries if isinstance(e, Faulted) and e.kind is FaultKind.FAILED]
    assert faulted


def test_a_wait_that_is_taken_out_shows_where_the_writer_is_late() -> None:
    trace = recorded(LENDS).commands
    index = max(i for i, e in enumerate(trace.entries) if isinstance(e, Wait) and e.event.startswith("copied"))
    with card_on_fake() as card:
        found = compare(without(trace, index), card, THREE)
    assert found.is_dead and found.shows
    shown = {order.order for order in found.orders if not order.is_equal}
    assert "copy late" in shown and "given" not in shown


def test_a_copy_from_another_place_is_seen_at_that_copy() -> None:
    trace = recorded(LENDS).commands
    index = next(
        i for i, e in enumerate(trace.entries) if isinstance(e, Copy) and isinstance(e.pairs[0].target, Access)
    )
    copy = trace.entries[index]
    assert isinstance(copy, Copy) and isinstance(copy.pairs[0].source, HostExtent)
    source = copy.pairs[0].source
    moved = CopyPair(replace(source, offset_bytes=source.offset_bytes + 1), copy.pairs[0].target)
    entry = replace(copy, pairs=(moved, *copy.pairs[1:]))
    wrong = replace(trace, entries=(*trace.entries[:index], entry, *trace.entries[index + 1 :]))
    with card_on_fake() as card:
        (found,) = compare_orders(play_on_twin(trace), play_on_card(wrong, card, {"given": ORDERS["given"]}))
    assert found.difference is not None and found.wrong_run is not None
    assert found.difference.step.line == index + 2


def test_the_kernel_itself_finds_what_the_twin_finds() -> None:
    """In triton's interpreter, on the shortest trace."""
    trace = recorded("bias_not_uploaded").commands
    with fake_driver(total_bytes=1 << 33) as fake:
        card = ReplayCard(api=fake, make_views=HostViews)
        found = compare(trace, card, {"all late": ORDERS["all late"]})
        card.close()
    assert not found.is_dead and not found.shows and len(found.twin.marks) > 5


def test_a_notice_that_never_comes_stalls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strata.replay_card.PATIENCE_S", 0.0)
    trace = recorded(LENDS).commands
    stalled = replace(trace, entries=(*trace.entries[:40], Reached("never")))
    with card_on_fake() as card, pytest.raises(ReplayStalled, match="the card reports nothing"):
        card.play(stalled, ORDERS["all late"], lambda view, seed: None, poison=1)


def test_host_memory_that_is_not_pinned_is_refused() -> None:
    with fake_driver(total_bytes=1 << 33, pinnable_bytes=4096) as fake:
        card = ReplayCard(api=fake, make_views=HostViews, launch=host_fingerprint)
        with pytest.raises(ConfigError, match="could not be pinned"):
            card.play(recorded(LENDS).commands, ORDERS["given"], lambda view, seed: None, poison=1)
        card.close()
        assert fake.leftovers() == {}


@pytest.mark.parametrize(
    ("name", "order"),
    [("back_recorded_too_early", "copy late"), ("failure_leaves_verifier_running", "verifier late")],
)
def test_a_planted_bug_that_shows_is_dead_on_the_twin(name: str, order: str, tmp_path: Path) -> None:
    traces, lost = record_planted([name], tmp_path)
    assert lost == []
    with card_on_fake() as card:
        found = compare(traces[name], card, {"given": ORDERS["given"], order: ORDERS[order]})
    assert found.is_dead
    assert [order.is_equal for order in found.orders] == [True, False]


def test_a_graph_that_is_refused_half_way_is_told_as_a_refusal(tmp_path: Path) -> None:
    """On the twin: the nodes before the one to blame have run, and left marks."""
    traces, lost = record_planted(["seen_not_uploaded"], tmp_path)
    assert lost == []
    with card_on_fake() as card:
        found = compare(traces["seen_not_uploaded"], card, {"given": ORDERS["given"]})
    assert found.is_dead


@pytest.mark.soak
@pytest.mark.parametrize("path", RECORDABLE, ids=lambda path: path.stem)
def test_every_kept_trace_is_hash_equal(path: Path) -> None:
    with card_on_fake() as card:
        found = compare(recorded(path.stem).commands, card)
    assert not found.is_dead and not found.shows


def test_streams_are_held_by_their_own_words() -> None:
    """What forces the order is there: as many waits for a word as turns, on every stream that the trace uses."""
    trace = recorded(LENDS).commands
    with fake_driver(total_bytes=1 << 33) as fake:
        card = ReplayCard(api=fake, make_views=HostViews, launch=host_fingerprint)
        card.play(trace, ORDERS["given"], lambda view, seed: None, poison=1)
        waits, writes = fake.named("cuStreamWaitValue32"), fake.named("cuStreamWriteValue32")
        card.close()
    assert len(waits) == len(writes) > 200
    assert len({stream for stream, *_ in waits}) == len(Stream) - 1  # nobody drafts here


def test_a_bug_that_its_trace_does_not_find_is_told_and_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = (REGRESS / "seen_not_uploaded.jsonl").read_text("utf-8")
    (tmp_path / "narrow_ring_overfilled.jsonl").write_text(other, "utf-8")
    monkeypatch.setattr(replays, "REGRESS", tmp_path)
    (out := tmp_path / "out").mkdir()
    assert record_planted(["narrow_ring_overfilled"], out) == ({}, ["narrow_ring_overfilled"])
