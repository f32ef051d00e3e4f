"""A tail is bounded, and what it gives can be played again, whenever it is asked."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.world.recording import replay_plainly
from strata.core.commands import Fill, GraphLaunch
from strata.core.serving.request import GenerationRequest, SamplingParams
from strata.trace import tail as tail_module
from strata.trace.command_trace import read_trace, write_trace
from strata.trace.entries import Noted
from strata.trace.tail import Tail
from tests.trace.builders import PLACES, SIZES, recorded

LENDS = "refill_cannot_be_repeated"


def tail_of(max_entries: int, *, name: str = LENDS, num_entries: int | None = None) -> Tail:
    trace = recorded(name).commands
    tail = Tail(trace.sizes, trace.places, {}, max_entries=max_entries)
    for entry in trace.entries[:num_entries]:
        tail.keep(entry)
    return tail


@pytest.mark.slow
@settings(max_examples=10)
@given(max_entries=st.integers(1, 500), end=st.integers(1, 440))
def test_a_tail_of_any_length_plays_at_any_moment(max_entries: int, end: int) -> None:
    tail = tail_of(max_entries, num_entries=end)
    assert len(tail) == min(max_entries, end) and len(tail) + tail.num_skipped == end
    trace = read_trace(write_trace(tail.trace({})))
    assert trace.skipped == tail.num_skipped
    assert replay_plainly(trace).deviations == ()


def test_a_tail_that_lost_nothing_is_the_whole_run() -> None:
    trace = recorded(LENDS).commands
    assert tail_of(10_000).trace({}).entries == trace.entries


def test_what_was_cut_off_is_said_where_it_was() -> None:
    tail = tail_of(100)
    entries = tail.trace({}).entries
    assert entries[-101] == Noted("cut", {"entries": tail.num_skipped})
    assert entries[-100:] == recorded(LENDS).commands.entries[-100:]


def request(num_ids: int, name: str = "r") -> GenerationRequest:
    return GenerationRequest(name, tuple(range(num_ids)), 4, SamplingParams(seed=3, logit_bias=((2, 1.5),)))


def begins(tail: Tail) -> list[Noted]:
    return [entry for entry in tail.trace({}).entries if isinstance(entry, Noted) and entry.what == "begin"]


def test_a_request_is_kept_whole_but_for_its_name() -> None:
    tail = Tail(SIZES, PLACES, {}, max_entries=10)
    tail.begin(request(5, "secret"))
    (begin,) = begins(tail)
    assert begin.facts["prompt_ids"] == [0, 1, 2, 3, 4] and begin.facts["prompt_tokens"] == 5
    assert begin.facts["sampling"]["seed"] == 3 and begin.facts["sampling"]["logit_bias"] == [[2, 1.5]]
    assert begin.facts["max_tokens"] == 4
    assert "secret" not in write_trace(tail.trace({}))
    assert len(read_trace(write_trace(tail.trace({}))).entries) == 1


def test_ids_of_prompts_are_bounded_whatever_the_number_of_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_module, "MAX_PROMPT_IDS", 100)
    tail = Tail(SIZES, PLACES, {}, max_entries=1000)
    for _ in range(20):
        tail.begin(request(30))
    kept = [begin.facts.get("prompt_ids") for begin in begins(tail)]
    assert [ids is not None for ids in kept] == [False] * 17 + [True] * 3
    assert [begin.facts["prompt_tokens"] for begin in begins(tail)] == [30] * 20
    tail.begin(request(300))
    assert [begin.facts["request"] for begin in begins(tail) if "prompt_ids" in begin.facts] == [21]


def test_a_prompt_leaves_with_its_request() -> None:
    tail = Tail(SIZES, PLACES, {}, max_entries=2)
    for _ in range(5):
        tail.begin(request(30))
    assert len(tail._prompts) == 2 and tail._num_prompt_ids == 60


def test_a_graph_over_and_over_costs_no_more_than_its_first_launch() -> None:
    trace = recorded(LENDS).commands
    tail = tail_of(1)
    index = max(i for i, entry in enumerate(trace.entries) if isinstance(entry, GraphLaunch))
    launch = trace.entries[index]
    state = tail._before
    state.apply(launch)
    before = state._num_writes
    for _ in range(5):
        state.apply(launch)
    assert state._num_writes == before
    fill = next(entry for entry in trace.entries if isinstance(entry, Fill))
    state.apply(fill)
    state.apply(launch)
    assert state._num_writes > before + 1


def test_the_serving_facts_are_in_the_head() -> None:
    trace = tail_of(5).trace({"server": {"error": "x", "message": "y"}})
    again = read_trace(write_trace(replace(trace, serving={"model": "m.gguf"})))
    assert again.serving == {"model": "m.gguf"} and again.origin == {"server": {"error": "x", "message": "y"}}
