"""Traces are canonical, hashed and complete, and what is made smaller still fails."""

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz.draw import draw_world, geometry_that_lends
from fuzz.draw_stages import two_stages
from fuzz.minimize import minimize
from sim.world.card import FaultKind
from sim.world.decisions import Advance, Begin, Cancel, Decision, Fault, Favour, Restart, Stop, Turn, from_json, to_json
from sim.world.geometry import Delivery, Geometry
from sim.world.sites import SITES
from sim.world.trace import Trace, read_trace, replay, write_trace
from strata.trace.jsonl import TraceError

NUMBERS = st.integers(0, 5000)
DECISIONS: st.SearchStrategy[Decision] = st.one_of(
    st.builds(Begin, NUMBERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS),
    st.builds(Advance, NUMBERS),
    st.just(Cancel()),
    st.just(Stop()),
    st.builds(Fault, NUMBERS, st.sampled_from(FaultKind), NUMBERS, st.sampled_from(("", *SITES))),
    st.builds(Favour, NUMBERS, NUMBERS),
    st.builds(Turn, NUMBERS, NUMBERS),
    st.builds(Restart, NUMBERS),
)
SEED_THAT_LENDS = 13
GEOMETRY = replace(geometry_that_lends(Delivery.CROSSED), recurrent=(2,))


@given(decisions=st.lists(DECISIONS, max_size=8), note=st.text(max_size=20))
def test_a_trace_comes_back_as_it_was_written(decisions: list[Decision], note: str) -> None:
    trace = Trace(GEOMETRY, tuple(decisions), note)
    assert read_trace(write_trace(trace)) == trace


def test_a_trace_says_what_its_world_may_lend() -> None:
    lending = draw_world(SEED_THAT_LENDS).geometry
    assert lending.is_elastic and lending.room_min_tokens >= 0 and lending.head_bytes
    assert read_trace(write_trace(Trace(lending, ()))).geometry == lending


@given(decision=DECISIONS)
def test_a_decision_is_one_line(decision: Decision) -> None:
    assert from_json(json.loads(json.dumps(to_json(decision)))) == decision


TEXT = write_trace(Trace(GEOMETRY, (Begin(300, max_tokens=2), Advance(9)), "a note"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        TEXT.replace("300", "301"),
        TEXT.replace('"v":1', '"v":2'),
        TEXT.replace(":300", ": 300"),
        "".join(TEXT.splitlines(keepends=True)[:-1]),
        TEXT.replace('"begin"', '"began"'),
        TEXT.replace('"times":9', '"times":-9'),
        TEXT.replace("blob_bytes", "blobs_bytes"),
        TEXT.replace('"min_cache_slots":2', '"is_elastic":1,"min_cache_slots":2'),
        TEXT.replace('"min_cache_slots":2', '"min_cache_slots":true'),
    ],
)
def test_a_trace_that_was_changed_is_refused(text: str) -> None:
    with pytest.raises(TraceError, match="no trace"):
        read_trace(text)


def test_a_trace_does_the_same_every_time() -> None:
    trace = read_trace(TEXT)
    assert replay(trace, is_recording=True).digest() == replay(trace, is_recording=True).digest()


def test_a_minimized_world_keeps_what_it_needs_and_nothing_else() -> None:
    """A check that needs a cancel after a read of at least 257 tokens, and a layer of 5003 bytes."""

    def fails(geometry: Geometry, decisions: Sequence[Decision]) -> bool:
        begins = [i for i, each in enumerate(decisions) if isinstance(each, Begin) and each.fresh >= 257]
        return bool(begins) and Cancel() in decisions[begins[0] :] and 5003 in geometry.blob_bytes

    noise: list[Decision] = [Advance(3), Begin(100), Fault(4, FaultKind.FAILED), Cancel()]
    found = [*noise, Begin(520, shared=7, salt=3), *noise, *noise]
    geometry, decisions = minimize(replace(GEOMETRY, num_experts=9), found, fails)
    begin, *rest = decisions
    assert isinstance(begin, Begin) and replace(begin, fresh=0) == Begin(0) and 257 <= begin.fresh <= 257 * 17 // 16
    assert rest == [Cancel()]
    assert (geometry.blob_bytes, geometry.num_experts, geometry.delivery) == ((5003,), 5, Delivery.ALL)
    assert geometry.recurrent == ()


def test_a_minimized_world_has_one_card_and_no_swaps_unless_it_needs_them() -> None:
    """Wherever cards are joined, the one has the bytes of both."""
    staged = replace(two_stages(), splits=(1, 2), arenas=(2 << 17, 3 << 17))
    geometry, _ = minimize(staged, (), lambda geometry, decisions: geometry.num_experts > 0)
    assert (geometry.splits, geometry.arenas, geometry.arena_bytes) == ((), (), 6 << 17)
    geometry, _ = minimize(staged, (), lambda geometry, decisions: geometry.splits != ())
    assert len(geometry.splits) == len(geometry.arenas) == 1 and geometry.arena_bytes + geometry.arenas[0] == 6 << 17
    swapping = replace(GEOMETRY, num_swaps=16, swap_windows=3)
    geometry, _ = minimize(swapping, (), lambda geometry, decisions: geometry.num_swaps > 0)
    assert (geometry.num_swaps, geometry.swap_windows) == (1, 1)
    geometry, _ = minimize(swapping, (), lambda geometry, decisions: geometry.swap_windows > 2)
    assert (geometry.num_swaps, geometry.swap_windows) == (1, 3)
