"""What the options of the prompt path and of the cache ask of the planner."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.core.errors import Refusal
from strata.core.memory.planner import Plan, plan_card
from strata.core.memory.shapes import PlanOptions
from strata.core.units import MIB
from tests.core.test_planner import inventory

MODEL = inventory(blob_bytes=(4000, 0, 4000), num_experts=40)


def planned(arena_bytes: int, options: PlanOptions) -> Plan:
    plan = plan_card(MODEL, arena_bytes, options)
    assert isinstance(plan, Plan), plan
    return plan


@given(bound=st.integers(1, 20).map(lambda n: 256 * n), arena_bytes=st.integers(MIB, 8 * MIB))
def test_a_bound_gives_the_largest_chunk_up_to_it(bound, arena_bytes):
    free = planned(arena_bytes, PlanOptions(4096)).prompt.chunk_tokens
    bounded = planned(arena_bytes, PlanOptions(4096, max_chunk_tokens=bound)).prompt.chunk_tokens
    assert bounded <= bound
    assert bounded == free or free > bound


@pytest.mark.parametrize("chunk_tokens", [256, 1024, 4096])
def test_a_given_chunk_is_taken_exactly(chunk_tokens):
    assert planned(8 * MIB, PlanOptions(4096, chunk_tokens=chunk_tokens)).prompt.chunk_tokens == chunk_tokens


@pytest.mark.parametrize("ring_slots", [1, 7, 40])
def test_a_given_ring_replaces_the_rule(ring_slots):
    assert len(planned(2 * MIB, PlanOptions(512, ring_slots=ring_slots, num_cache_slots=20)).prompt.ring) == ring_slots


@given(min_slots=st.integers(2, 80), arena_bytes=st.integers(0, MIB))
def test_a_plan_holds_the_slots_that_must_fit_or_says_what_is_missing(min_slots, arena_bytes):
    options = PlanOptions(300, min_cache_slots=min_slots)
    plan = plan_card(MODEL, arena_bytes, options)
    if isinstance(plan, Plan):
        assert len(plan.slots) >= min_slots
    else:
        assert f"{min_slots} cache slots" in plan.reason and "lower --cache-min-slots" in plan.reason
        mended = plan_card(MODEL, arena_bytes + plan.shortfall_bytes, options)
        assert isinstance(mended, Plan)
        assert isinstance(plan_card(MODEL, arena_bytes + plan.shortfall_bytes - 1, options), Refusal)


def test_more_slots_that_must_fit_make_the_chunk_smaller():
    model = inventory(blob_bytes=(4000,) * 3, num_experts=200)
    loose = plan_card(model, 2 * MIB, PlanOptions(4096))
    assert isinstance(loose, Plan)
    tight = plan_card(model, 2 * MIB, PlanOptions(4096, min_cache_slots=len(loose.slots) - 30))
    assert isinstance(tight, Plan)
    assert tight.prompt.chunk_tokens < loose.prompt.chunk_tokens
    assert len(tight.slots) >= len(loose.slots) - 30


def test_a_shortfall_names_everything_that_was_asked_for():
    plan = plan_card(MODEL, 1000, PlanOptions(512, chunk_tokens=512, ring_slots=9, min_cache_slots=30))
    assert isinstance(plan, Refusal)
    assert "a prompt chunk of 512 tokens, a ring of 9 slots and 30 cache slots" in plan.reason
    assert plan.reason.endswith(
        "raise --vram, lower --ctx, lower --prefill, lower STRATA_PREFILL_RING or lower --cache-min-slots"
    )
