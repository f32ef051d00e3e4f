"""The requests of a server's trace, through the core as it is."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sim.world.served import is_served, replay_served
from strata.core.commands import Wait
from strata.core.errors import DeviceError
from strata.core.memory.policy import LendingPolicy
from strata.core.memory.shapes import PlanOptions
from strata.core.serving import borrowing, swapping
from strata.core.serving.request import GenerationRequest
from strata.trace.command_trace import CommandTrace
from strata.trace.entries import Entry, Noted
from tests.engine.symbolic_card import drafting_inventory, lending_inventory, prompt
from tests.trace.builders import recorded
from tests.trace.watched_card import WatchedCard


@pytest.fixture
def card(tmp_path: Path) -> WatchedCard:
    return WatchedCard(tmp_path / "trace.jsonl")


def broken(card: WatchedCard) -> CommandTrace:
    """Two requests, a third that shares a prefix with the second and is cancelled, and a fourth that breaks."""
    card.card.serve(prompt(300))
    card.card.serve(prompt(400, first=3))
    card.card.serve(prompt(420, first=3), cancel_after_steps=4)
    card.fails_at = card.num_commands + 45
    with pytest.raises(DeviceError):
        card.card.serve(prompt(500, first=3))
    return card.trace()


def changed(trace: CommandTrace, what: str, nth: int, **facts: object) -> CommandTrace:
    entries: list[Entry] = list(trace.entries)
    at = [i for i, entry in enumerate(entries) if isinstance(entry, Noted) and entry.what == what][nth]
    note = entries[at]
    assert isinstance(note, Noted)
    entries[at] = Noted(what, {**note.facts, **facts})
    return replace(trace, entries=tuple(entries))


def num_notes(trace: CommandTrace, *whats: str) -> int:
    return sum(isinstance(entry, Noted) and entry.what in whats for entry in trace.entries)


def test_the_core_of_today_does_what_it_did(card: WatchedCard) -> None:
    trace = broken(card)
    assert is_served(trace)
    served = replay_served(trace)
    assert served.failure is None and served.departure == ""
    assert served.num_requests == 4
    assert served.num_steps == num_notes(trace, "read", "sampled", "closed") > 20


def test_a_request_that_is_mended_is_followed_through_its_mending(card: WatchedCard) -> None:
    card.fails_at = card.num_commands + 20
    with pytest.raises(DeviceError):
        card.card.serve(prompt(300))
    card.card.runner.recover()
    card.card.serve(prompt(300))
    card.card.runner.begin(prompt(300))
    card.card.runner.recover()
    served = replay_served(card.trace())
    assert (served.num_requests, served.failure, served.departure) == (3, None, "")


def test_a_tail_that_begins_in_the_middle_finds_its_session(tmp_path: Path) -> None:
    """The first request whose ids are there had reused a prefix that no entry tells of any more."""
    card = WatchedCard(tmp_path / "trace.jsonl", max_entries=160)
    trace = broken(card)
    assert trace.skipped > 0
    reuses = next(entry for entry in trace.entries if isinstance(entry, Noted) and entry.what == "reuses")
    assert reuses.facts["tokens"] > 0
    served = replay_served(trace)
    assert served.failure is None and served.departure == "" and served.num_requests >= 1


def test_another_prefix_is_a_departure(card: WatchedCard) -> None:
    served = replay_served(changed(broken(card), "reuses", 2, tokens=7))
    assert "reuses 7 when it was recorded" in served.departure and served.failure is None


def test_another_chunk_is_a_departure(card: WatchedCard) -> None:
    served = replay_served(changed(broken(card), "read", 3, tokens=1))
    assert "read 1 when it was recorded" in served.departure


def test_what_the_core_does_wrong_now_is_found_by_the_twin(card: WatchedCard, monkeypatch: pytest.MonkeyPatch) -> None:
    """A core whose refill waits for nothing: the trace was recorded when it still did."""
    trace = broken(card)
    monkeypatch.setattr(borrowing, "Wait", lambda stream, event: Wait(stream.PROMPT, event))
    served = replay_served(trace)
    assert type(served.failure).__name__ == "OrderError", served


def test_blobs_are_exchanged_again_by_the_reads_that_were_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a core shows that does not wait for their copies."""
    options = PlanOptions(600, min_cache_slots=4, num_swaps=2, swap_windows=2)
    card = WatchedCard(tmp_path / "trace.jsonl", options=options)
    card.card.hot = frozenset({(0, 39), (2, 38)})
    card.card.serve(prompt(20, max_tokens=12))
    card.fails_at = card.num_commands + 45
    with pytest.raises(DeviceError):
        card.card.serve(prompt(500, first=3))
    trace = card.trace()
    assert num_notes(trace, "counted") >= 5
    served = replay_served(trace)
    assert (served.num_requests, served.failure, served.departure) == (2, None, "")
    few = replay_served(changed(trace, "counted", 0, reads=[1, 2, 3]))
    assert "reads of 3 experts when it was recorded, reads of" in few.departure and few.failure is None
    monkeypatch.setattr(swapping, "Wait", lambda stream, event: Wait(stream.PROMPT, event))
    assert type(replay_served(trace).failure).__name__ in ("OrderError", "ContentMismatch")


def test_requests_whose_windows_staged_blobs_are_left_out_and_said(tmp_path: Path) -> None:
    """Their commands play onto a device like others; what the core asked its routers in between is not followed."""
    options = PlanOptions(600, min_cache_slots=4, pinned_bytes=300_000)
    card = WatchedCard(tmp_path / "trace.jsonl", options=options)
    card.card.serve(prompt(20, max_tokens=3))
    card.fails_at = card.num_commands + 5
    with pytest.raises(DeviceError):
        card.card.serve(prompt(20, first=3))
    served = replay_served(card.trace())
    assert (served.num_requests, served.failure, served.departure) == (0, None, "")
    assert "staged experts layer by layer" in served.left_out[0]


def test_a_card_that_has_no_plan_any_more_is_refused(card: WatchedCard) -> None:
    trace = broken(card)
    small = replace(trace, sizes=replace(trace.sizes, arena_bytes=4096))
    with pytest.raises(ValueError, match="the planner of today refuses this card"):
        replay_served(small)
    with pytest.raises(ValueError, match="'two' is no int"):
        replay_served(replace(trace, serving={**trace.serving, "inventory": {"num_layers": "two"}}))


def test_a_prompt_whose_ids_were_not_kept_is_left_out_and_said(card: WatchedCard) -> None:
    trace = broken(card)
    entries = tuple(
        Noted("begin", {k: v for k, v in entry.facts.items() if k != "prompt_ids"})
        if isinstance(entry, Noted) and entry.what == "begin" and entry.facts["request"] == 1
        else entry
        for entry in trace.entries
    )
    served = replay_served(replace(trace, entries=entries))
    assert (served.num_requests, served.failure, served.departure) == (3, None, "")


def test_a_world_is_no_server() -> None:
    assert not is_served(recorded("reader_skips_wait").commands)


@pytest.mark.parametrize("max_entries", [100_000, 150])
def test_conversations_that_leave_and_come_back_are_followed(tmp_path: Path, max_entries: int) -> None:
    """From a cut, what was parked before it is not known: then the core says that it does something else."""
    options = PlanOptions(600, min_cache_slots=4, parked_bytes=1 << 20)
    card = WatchedCard(tmp_path / "trace.jsonl", options=options, max_entries=max_entries)
    for first in (0, 3, 0, 3):
        card.card.serve(prompt(300, first=first))
    card.fails_at = card.num_commands + 30
    with pytest.raises(DeviceError):
        card.card.serve(prompt(310))
    trace = card.trace()
    assert num_notes(trace, "moved") > 0
    assert [deviation.found for deviation in card.replay().deviations] == [""]
    served = replay_served(trace)
    assert served.failure is None
    if trace.skipped:
        assert "moved when it was recorded" in served.departure
    else:
        assert served.departure == "" and served.num_requests == 5


ROOM = LendingPolicy(room_min_tokens=0)
ALL = LendingPolicy(room_min_tokens=0, is_elastic=True, lends_block=True, lends_head=True, repeat_min_tokens=1024)


@pytest.mark.slow
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    policy=st.sampled_from((ROOM, ALL)),
    is_hybrid=st.booleans(),
    window_rows=st.integers(1, 8),
    num_tokens=st.integers(1, 1300),
    steps=st.integers(0, 40),
    max_entries=st.sampled_from((40, 150, 400, 100_000)),
    least=st.sampled_from((0.0, 0.5)),
    seed=st.integers(0, 1 << 16),
)
@example(policy=ALL, is_hybrid=False, window_rows=1, num_tokens=2, steps=0, max_entries=40, least=0.0, seed=0)
def test_every_way_to_lend_and_draft_is_played_and_followed_from_any_cut(
    policy: LendingPolicy,
    is_hybrid: bool,
    window_rows: int,
    num_tokens: int,
    steps: int,
    max_entries: int,
    least: float,
    seed: int,
    tmp_path: Path,
) -> None:
    """Segments away, a room open, slots lent, drafts under way, recurrent state: wherever it stops."""
    inventory = drafting_inventory()
    if is_hybrid:
        inventory = replace(inventory, state_bytes=(512, 0, 768, 0), journal_bytes=64)
    options = PlanOptions(
        4096,
        min_cache_slots=4,
        ring_slots=4,
        window_rows=window_rows,
        policy=policy,
        segment_bytes=1 << 16,
        least_probability=least,
    )
    card = WatchedCard(
        tmp_path / "trace.jsonl",
        max_entries=max_entries,
        inventory=inventory,
        options=options,
        arena_bytes=12 << 17,
        seed=seed,
    )
    card.card.serve(prompt(200, max_tokens=5))
    card.card.serve(prompt(num_tokens, max_tokens=9, first=1), cancel_after_steps=steps)
    card.card.runner.begin(prompt(num_tokens, max_tokens=9, first=2))
    card.card.play()
    card.card.runner.advance(is_cancelled=False)
    card.card.runner.recover()
    assert card.replay().deviations == ()
    served = replay_served(card.trace())
    assert (served.failure, served.departure) == (None, "")


@pytest.mark.parametrize("least", [0.0, 0.5])
def test_drafts_of_the_host_and_those_that_it_cuts_are_followed(tmp_path: Path, least: float) -> None:
    """Looked up without a drafter; with one, as far as they were worth a row."""
    few = replace(drafting_inventory() if least else lending_inventory(), vocab_size=3)
    options = PlanOptions(600, min_cache_slots=4, window_rows=4, least_probability=least)
    card = WatchedCard(tmp_path / "trace.jsonl", inventory=few, options=options, arena_bytes=12 << 17, seed=5)
    ids = tuple(i * i % 3 for i in range(40))
    card.card.serve(GenerationRequest("r", ids, 40))
    facts = card.card.runner.draft_facts()
    assert 0 < facts.num_accepted < facts.num_drafts
    card.card.runner.begin(GenerationRequest("r", ids[:9], 1))
    card.card.runner.recover()  # which is when a trace is written
    trace = card.trace()
    assert (num_notes(trace, "worthy") > 3) is bool(least)
    served = replay_served(trace)
    assert (served.failure, served.departure) == (None, "")
    if least:
        more = replay_served(changed(trace, "worthy", 0, drafts=4)).departure
        assert "4 drafts worthy when it was recorded, 3 drafts found now" in more
        left_out = tuple(e for e in trace.entries if not (isinstance(e, Noted) and e.what == "worthy"))
        fewer = replay_served(replace(trace, entries=left_out)).departure
        assert "no drafts worthy when it was recorded, 3 drafts found now" in fewer
        unsure = {**trace.serving["options"], "least_probability": 0.0}
        never = replay_served(replace(trace, serving={**trace.serving, "options": unsure})).departure
        assert "drafts worthy when it was recorded, no drafts found now" in never
