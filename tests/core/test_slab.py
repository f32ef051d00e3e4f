"""Scratch of prompt programs: size classes, the region that holds them all the time, and the slab in its place."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from strata.core.errors import Refusal
from strata.core.extent import Extent
from strata.core.memory.bump import Bump
from strata.core.memory.layout import carve_prompt, price_prompt
from strata.core.memory.planner import Plan, plan_card
from strata.core.memory.policy import LendingPolicy
from strata.core.memory.scratch import carve_scratch, class_bytes, price_scratch
from strata.core.memory.shapes import PlanOptions
from strata.core.units import KIB, MIB
from strata.core.workspace import Work, WorkArea
from strata.planning import lends
from tests.engine.scratch_models import working_inventory
from tests.engine.symbolic_card import SEGMENT_BYTES, drafting_inventory, lending_inventory

OPTIONS = PlanOptions(2500, min_cache_slots=8)
ROOM_FOR_SOME = 6 * MIB


def planned(has_slab: bool, *, arena_bytes: int = ROOM_FOR_SOME, **change: object) -> Plan:
    plan = plan_card(working_inventory(), arena_bytes, replace(OPTIONS, has_slab=has_slab, **change))
    assert not isinstance(plan, Refusal), plan
    return plan


@given(st.integers(1, 1 << 40))
def test_a_class_is_the_smallest_power_of_two_with_room(size_bytes: int):
    """Invariant 36."""
    found = class_bytes(size_bytes)
    assert found >= 128 * KIB and found.bit_count() == 1
    assert found >= size_bytes and (found == 128 * KIB or found // 2 < size_bytes)


def test_programs_of_one_class_share_a_buffer_and_those_of_none_have_none():
    """At least one class is reused: attention and the dense FFN need different sizes of one class."""
    bump = Bump(1000)
    places = carve_scratch(bump, working_inventory(), chunk_tokens=256, owner="x")
    assert places["attention"] == places["ffn"] != places["router"] == places["experts"]
    assert {access.owner for access in places.values()} == {"x"} and "embed" not in places
    assert (places["attention"].extent, places["router"].extent) == (
        Extent(1024, 128 * KIB),
        Extent(1024 + 128 * KIB, 256 * KIB),
    )
    assert bump.offset_bytes == places["router"].extent.end_bytes


@given(st.integers(1, 9000), st.integers(0, 60), st.integers(0, 10**9))
def test_price_is_carve_with_a_slab(chunk_tokens: int, ring_slots: int, base: int):
    """Invariant 11; 35: it begins where the ring ends."""
    bump, inventory = Bump(base), working_inventory()
    start = bump.offset_bytes
    sizes = {"chunk_tokens": chunk_tokens, "ring_slots": ring_slots}
    layout = carve_prompt(bump, inventory, **sizes, scratch=None)
    assert bump.offset_bytes - start == price_prompt(inventory, **sizes, has_slab=True)
    assert layout.slab_bytes == price_scratch(inventory, chunk_tokens=chunk_tokens)
    end = max((slot.end_bytes for slot in layout.ring), default=layout.addresses.end_bytes)
    assert min(access.extent.offset_bytes for access in layout.scratch.values()) >= end
    without = price_prompt(inventory, **sizes, has_slab=False)
    assert price_prompt(inventory, **sizes, has_slab=True) - without == layout.slab_bytes


def test_without_a_slab_scratch_is_a_region_that_is_never_lent():
    plan = planned(False)
    region = plan.region("scratch")
    assert region.size_bytes == price_scratch(plan.inventory, chunk_tokens=plan.prompt.chunk_tokens)
    for tokens in (1, 300, 2400):
        read = plan.read(tokens)
        assert read.lent and read.layout.slab_bytes == 0
        assert {access.owner for access in read.layout.scratch.values()} == {"scratch"}
        assert all(region.contains(access.extent) for access in read.layout.scratch.values())
        assert not read.extent.overlaps(region)


def test_with_a_slab_the_region_is_cache_and_scratch_lies_behind_the_carve():
    """Invariants 35 and 37: over its own loan, behind everything else that the read works in."""
    off, on = planned(False), planned(True)
    assert [region.name for region in off.regions if region.name not in {r.name for r in on.regions}] == ["scratch"]
    assert len(on.slots) > len(off.slots)
    for tokens in (1, 300, 2400):
        read = on.read(tokens)
        places = {access.extent for access in read.layout.scratch.values()}
        assert read.lent and read.layout.slab_bytes == sum(place.size_bytes for place in places) > 0
        assert {access.owner for access in read.layout.scratch.values()} == {"prompt"}
        assert all(read.extent.contains(place) for place in places)
        assert min(places).offset_bytes >= read.layout.ring[-1].end_bytes
        assert all(a.end_bytes <= b.offset_bytes for a, b in itertools.pairwise(sorted(places)))


def test_a_moved_tail_moves_every_buffer():
    """Invariant 35: a shorter read borrows less, further back, and nothing of the longer one's slab is left."""
    plan = planned(True)
    long, short = (plan.read(tokens).layout for tokens in (2400, 100))
    assert long.chunk_tokens > short.chunk_tokens
    old, new = ({access.extent for access in layout.scratch.values()} for layout in (long, short))
    assert old and new and not old & new


@given(st.integers(ROOM_FOR_SOME // 2, 2 * ROOM_FOR_SOME), st.integers(0, MIB), st.booleans())
def test_more_bytes_never_give_a_smaller_chunk(arena_bytes: int, more_bytes: int, has_slab: bool):
    options = replace(OPTIONS, has_slab=has_slab)
    plans = [plan_card(working_inventory(), size, options) for size in (arena_bytes, arena_bytes + more_bytes)]
    assume(not any(isinstance(plan, Plan) and plan.lendable is None for plan in plans))  # all fits, nothing borrows
    chunks = [0 if isinstance(plan, Refusal) else plan.prompt.chunk_tokens for plan in plans]
    assert chunks == sorted(chunks)


@pytest.mark.parametrize(
    ("change", "arena_bytes", "words"),
    [
        ({"min_cache_slots": None}, ROOM_FOR_SOME, "keeps 128; lower --cache-min-slots to let it lend"),
        ({}, 1200 * KIB, "a chunk needs"),
    ],
)
def test_no_layout_with_a_tail_is_refused_with_the_missing_bytes(change, arena_bytes: int, words: str):
    found = plan_card(working_inventory(), arena_bytes, replace(OPTIONS, has_slab=True, **change))
    assert isinstance(found, Refusal) and found.shortfall_bytes > 0
    assert found.reason.startswith("slab refused: programs of a chunk work in the tail of what reads borrow; no loan: ")
    assert words in found.reason and found.reason.endswith(", or unset STRATA_MMQ_SLAB")


def test_a_tail_that_is_too_short_is_not_chosen():
    """With less to borrow the chunk is smaller, and its slab is whole all the same."""
    tight = plan_card(working_inventory(), ROOM_FOR_SOME, replace(OPTIONS, has_slab=True, min_cache_slots=50))
    assert not isinstance(tight, Refusal)
    assert tight.prompt.chunk_tokens < planned(True).prompt.chunk_tokens
    assert tight.prompt.slab_bytes == price_scratch(tight.inventory, chunk_tokens=tight.prompt.chunk_tokens)


def test_where_no_program_asks_for_scratch_the_switch_changes_nothing():
    plans = [plan_card(lending_inventory(), 768 * KIB, replace(OPTIONS, has_slab=flag)) for flag in (False, True)]
    assert all(isinstance(plan, Plan) and plan.lendable for plan in plans)
    assert plans[0].regions == plans[1].regions and plans[0].slots == plans[1].slots  # type: ignore[union-attr]


def test_a_small_region_may_leave_more_to_borrow_than_a_large_one():
    """What programs need grows with the chunk, and so does what is not there to be borrowed for it."""
    greedy = replace(working_inventory(), prompt_work=(Work(("attention",), (WorkArea("x", 1500),)),))
    plan = plan_card(greedy, ROOM_FOR_SOME, OPTIONS)
    assert isinstance(plan, Plan) and plan.lendable is not None
    most = price_scratch(greedy, chunk_tokens=2560)
    assert plan.region("scratch").size_bytes < most
    assert plan.region("scratch").size_bytes == price_scratch(greedy, chunk_tokens=plan.prompt.chunk_tokens)


@pytest.mark.parametrize("has_slab", [False, True])
def test_the_slab_of_a_read_with_moved_segments_lies_in_its_own_bytes(has_slab: bool):
    inventory = replace(drafting_inventory(), prompt_work=working_inventory().prompt_work)
    policy = LendingPolicy(is_elastic=True, lends_block=True, lends_head=True)
    options = replace(OPTIONS, has_slab=has_slab, policy=policy, segment_bytes=SEGMENT_BYTES, window_rows=2)
    plan = plan_card(inventory, 4 * MIB, options)
    assert isinstance(plan, Plan) and plan.zone is not None
    read = plan.read(2400, has_segments=True)
    place = read.extent if has_slab else plan.region("scratch")
    assert read.layout.scratch
    assert all(place.contains(access.extent) for access in read.layout.scratch.values())


def test_a_plan_lends_where_reads_borrow_or_a_room_may_open():
    lending, alone = planned(False), plan_card(lending_inventory(), 8 * MIB, OPTIONS)
    roomy = plan_card(drafting_inventory(), 8 * MIB, replace(OPTIONS, policy=LendingPolicy(room_min_tokens=0)))
    assert isinstance(alone, Plan) and isinstance(roomy, Plan)
    assert lends(lending) and lends(roomy) and not lends(alone)
    assert alone.lendable is None is roomy.lendable


def test_an_elastic_loan_without_slots_to_borrow_is_refused_before_the_slab_is():
    options = replace(OPTIONS, policy=LendingPolicy(is_elastic=True), segment_bytes=1 << 12, min_cache_slots=None)
    found = plan_card(drafting_inventory(), 1 << 20, replace(options, has_slab=True))
    assert isinstance(found, Refusal)
    assert found.reason.startswith("elastic loan refused: reads must borrow cache slots; no loan: ")
