"""What a budget of pinned memory does to a plan: which blobs are pinned, which ones windows must stage and where, how
long the ring is and how much may be lent, and what the address table says."""

import itertools
import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.core.errors import Refusal
from strata.core.inventory import ModelInventory
from strata.core.memory.pack import plan_pack
from strata.core.memory.planner import Plan, plan_card
from strata.core.memory.shapes import STREAM_RING_BYTES, PlanOptions, is_mostly_pinned, ring_slots_of
from strata.core.serving.chunk import Addresses
from strata.core.serving.table import address_words, resident_blobs
from strata.core.units import MIB
from tests.engine.symbolic_card import drafting_inventory, lending_inventory

OPTIONS = PlanOptions(300, min_cache_slots=4, ring_slots=4)
ARENA_BYTES = 1 << 19
PLACES = Addresses(arena=1 << 40, pack=1 << 44)


def planned(pinned_bytes: int | None, model: ModelInventory | None = None, **options: int) -> Plan:
    model = model or lending_inventory()
    arena_bytes = ARENA_BYTES if model.drafter is None else 2 * ARENA_BYTES
    plan = plan_card(model, arena_bytes, replace(OPTIONS, pinned_bytes=pinned_bytes, **options))
    assert isinstance(plan, Plan), plan
    return plan


def pairs(plan: Plan) -> set[tuple[int, int]]:
    return {(layer, expert) for layer, row in enumerate(plan.pack.blobs) for expert in range(len(row))}


def resident(plan: Plan) -> set[tuple[int, int]]:
    return {(slot.layer, slot.expert) for slot in plan.slots}


def staged(plan: Plan) -> set[tuple[int, int]]:
    return {(layer, expert) for layer, experts in enumerate(plan.staged) for expert in experts}


@given(pinned_bytes=st.integers(0, 1_200_000), model=st.sampled_from((lending_inventory(), drafting_inventory())))
def test_blobs_without_a_slot_are_pinned_first_and_those_left_over_are_staged(pinned_bytes, model):
    plan = planned(pinned_bytes, model)
    pack, missing = plan.pack, pairs(plan) - resident(plan)
    assert pack.pinned_bytes == min(pinned_bytes, pack.size_bytes)
    pageable = {(layer, expert) for layer, expert in pairs(plan) if not pack.is_pinned(pack.blobs[layer][expert])}
    assert len(pageable) == pack.num_pageable_blobs
    assert staged(plan) == pageable & missing
    assert not staged(plan) or resident(plan) <= pageable
    in_order = sorted(pairs(plan), key=lambda pair: (pair in resident(plan), pair))
    assert sorted(pairs(plan), key=lambda pair: pack.blobs[pair[0]][pair[1]]) == in_order
    first_of_others = min(home.offset_bytes for home in (*pack.block, *pack.weights.values()))
    assert max(home.end_bytes for row in pack.blobs for home in row) <= first_of_others


@given(pinned_bytes=st.none() | st.integers(0, 1_200_000))
def test_everything_in_a_pack_has_its_own_bytes_whatever_is_pinned(pinned_bytes):
    model = drafting_inventory()
    pack = plan_pack(model, pinned_bytes=pinned_bytes, resident={(3, 5), (0, 0), (2, 39)})
    homes = sorted((*(home for row in pack.blobs for home in row), *pack.block, *pack.weights.values()))
    assert all(home.offset_bytes % 256 == 0 for home in homes)
    assert all(left.end_bytes <= right.offset_bytes for left, right in itertools.pairwise(homes))
    assert homes[-1].end_bytes <= pack.size_bytes == plan_pack(model).size_bytes
    assert [[home.size_bytes for home in row] for row in pack.blobs] == [
        [size] * 40 * (size > 0) for size in model.blob_bytes
    ]


def test_every_blob_is_told_with_its_place_and_the_drafters_are_the_layer_behind():
    pack = plan_pack(drafting_inventory(), pinned_bytes=5000, resident={(0, 7)})
    placed = list(pack.placed_blobs())
    assert [(layer, expert) for layer, expert, _ in placed] == [(at, i) for at in (0, 2, 3, 4) for i in range(40)]
    rows = {0: pack.blobs[0], 2: pack.blobs[2], 3: pack.blobs[3], 4: pack.block}
    assert all(home == rows[layer][expert] for layer, expert, home in placed)


def test_a_blob_that_lies_across_the_edge_is_pageable():
    plan = planned(8192 * 3 + 100)
    pack = plan.pack
    assert [pack.is_pinned(home) for home in sorted(home for row in pack.blobs for home in row)][:5] == [
        *(True, True, True),
        *(False, False),
    ]


def test_without_a_budget_and_with_one_for_all_nothing_is_pageable():
    whole = planned(None)
    same = planned(whole.pack.size_bytes)
    assert (whole.staged, whole.pack.num_pageable_blobs, whole.verifier.staged) == ((), 0, ())
    assert (same.slots, same.prompt, same.verifier, same.staged) == (whole.slots, whole.prompt, whole.verifier, ())
    assert whole.pack.pinned_bytes == same.pack.pinned_bytes == whole.pack.size_bytes
    blobs = [home for row in whole.pack.blobs for home in row]
    assert blobs == sorted(blobs), "in (layer, expert) order"


@pytest.mark.parametrize(("window_rows", "num_slots"), [(1, 2), (3, 6), (8, 16)])
def test_a_window_has_slots_for_what_all_its_rows_may_choose_in_a_layer(window_rows: int, num_slots: int):
    plan, whole = planned(100_000, window_rows=window_rows), planned(None, window_rows=window_rows)
    verifier = plan.verifier
    assert len(verifier.staged) == num_slots == plan.options.num_staged
    assert verifier.addresses.size_bytes == 8 * 40
    assert all(plan.region("verifier").contains(slot) and slot.size_bytes == 8192 for slot in verifier.staged)
    assert len(plan.slots) <= len(whole.slots) - num_slots, "they cost cache slots"


def test_a_window_has_no_more_slots_than_a_layer_has_experts():
    plan = planned(
        0, replace(lending_inventory(), num_experts=10, num_experts_used=9), window_rows=8, num_cache_slots=6
    )
    assert len(plan.verifier.staged) == 10


def test_where_each_pageable_blob_has_a_slot_nothing_is_staged():
    missing_bytes = sum(planned(None).inventory.blob_bytes) * 40 - sum(
        slot.extent.size_bytes for slot in planned(None).slots
    )
    plan = planned(missing_bytes + 20_000)
    assert plan.pack.num_pageable_blobs > 0 and plan.staged == () == plan.verifier.staged
    assert plan.slots == planned(None).slots


def test_swaps_are_refused_where_a_blob_is_pageable():
    refused = plan_card(lending_inventory(), ARENA_BYTES, replace(OPTIONS, pinned_bytes=900_000, num_swaps=2))
    assert isinstance(refused, Refusal)
    assert "leave --cache-swaps out or raise --resident-budget-gib" in refused.reason and not refused.shortfall_bytes
    assert planned(1 << 30, num_swaps=2).staged == ()


def test_a_card_without_room_for_the_slots_is_refused_with_the_missing_bytes():
    model = replace(lending_inventory(), num_experts_used=20)
    refused = plan_card(model, ARENA_BYTES, replace(OPTIONS, pinned_bytes=0, window_rows=8, min_cache_slots=None))
    assert isinstance(refused, Refusal) and refused.shortfall_bytes > 0
    assert refused.reason.endswith("or raise --resident-budget-gib")
    assert isinstance(plan_card(model, ARENA_BYTES, replace(OPTIONS, window_rows=8, min_cache_slots=None)), Plan)


@pytest.mark.parametrize(("percent", "is_mostly"), [(None, True), (100, True), (90, True), (89, False), (0, False)])
def test_ring_and_loan_are_smaller_where_less_than_nine_tenths_of_the_experts_are_pinned(percent, is_mostly):
    """`lending.md` 3.4 and 6."""
    model = replace(lending_inventory(), blob_bytes=(2_329_600,) * 10, num_experts=200)
    options = PlanOptions(4096, pinned_bytes=None if percent is None else percent * model.expert_bytes // 100)
    assert is_mostly_pinned(model, options) == is_mostly
    slots = STREAM_RING_BYTES // 2_329_600, STREAM_RING_BYTES // 4 // 2_329_600
    assert slots == (227, 56)
    assert ring_slots_of(model, options, chunk_tokens=1024) == slots[0 if is_mostly else 1]
    assert ring_slots_of(model, replace(options, ring_slots=9), chunk_tokens=1024) == 9
    assert ring_slots_of(model, options, chunk_tokens=256) == 8


@pytest.mark.parametrize(("pinned_bytes", "percent"), [(None, 90), (100_000, 85)])
def test_a_cache_lends_less_of_its_slots_where_less_is_pinned(pinned_bytes, percent):
    plan = plan_card(lending_inventory(), MIB, replace(OPTIONS, pinned_bytes=pinned_bytes, min_cache_slots=1))
    assert isinstance(plan, Plan) and plan.lendable is not None
    assert plan.lendable.max_lent == len(plan.slots) * percent // 100


def test_what_is_neither_pinned_nor_resident_has_no_address():
    plan = planned(100_000)
    slots = resident_blobs(plan, plan.slots)
    for layer, row in enumerate(plan.pack.blobs):
        of_layer = {pair: blob for pair, blob in slots.items() if pair[0] == layer}
        words = struct.unpack("<40q", address_words(plan, PLACES, of_layer, range(layer, layer + 1)))
        for expert, home in enumerate(row):
            if (layer, expert) in slots:
                assert words[expert] == PLACES.arena + slots[layer, expert].extent.offset_bytes
            else:
                assert words[expert] == (PLACES.pack + home.offset_bytes if plan.pack.is_pinned(home) else 0)
    assert len(staged(plan)) > 40
