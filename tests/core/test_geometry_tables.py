"""The figures of `lending.md` as tables: what the planner's pure functions make of sizes that were published."""

from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strata.core.extent import Extent
from strata.core.inventory import DrafterInventory
from strata.core.memory.fixed import carve_fixed
from strata.core.memory.planner import Plan, plan_card
from strata.core.memory.policy import LendingPolicy
from strata.core.memory.shapes import STREAM_ALL_TOKENS, STREAM_RING_BYTES, PlanOptions, ring_rule, room_slots
from strata.core.units import MIB, align_up
from tests.core.test_planner import inventory

BLOCK_BYTES = 707_788_800
"""The drafter's block of the report; into how many experts it is cut is not said there: tests cut it as they like."""
Q8_MAX_BLOB_BYTES, MAX_BLOB_BYTES, PACKED_BLOB_BYTES = 5_222_400, 2_329_600, 1_382_400


@pytest.mark.parametrize(
    ("block_bytes", "max_blob_bytes", "num_slots"),
    [
        (BLOCK_BYTES, Q8_MAX_BLOB_BYTES, 135),
        (BLOCK_BYTES, MAX_BLOB_BYTES, 303),
        (135 * Q8_MAX_BLOB_BYTES, Q8_MAX_BLOB_BYTES, 135),
        (135 * Q8_MAX_BLOB_BYTES - 1, Q8_MAX_BLOB_BYTES, 134),
        (Q8_MAX_BLOB_BYTES - 1, Q8_MAX_BLOB_BYTES, 0),
        (0, Q8_MAX_BLOB_BYTES, 0),
    ],
)
def test_a_block_has_room_for_whole_slots(block_bytes: int, max_blob_bytes: int, num_slots: int) -> None:
    assert room_slots(block_bytes, align_up(max_blob_bytes, 256)) == num_slots


@given(block_bytes=st.integers(0, 2**36), stride_bytes=st.integers(1, 2**24))
@example(block_bytes=2**30, stride_bytes=2**20)
def test_the_room_fills_the_block_but_for_less_than_a_slot(block_bytes: int, stride_bytes: int) -> None:
    used_bytes = room_slots(block_bytes, stride_bytes) * stride_bytes
    assert used_bytes <= block_bytes < used_bytes + stride_bytes


def test_a_dense_model_has_no_slots_whatever_its_block() -> None:
    assert room_slots(BLOCK_BYTES, 0) == 0


@pytest.mark.parametrize(
    ("chunk_tokens", "max_blob_bytes", "num_slots"),
    [
        (256, MAX_BLOB_BYTES, 8),
        (768, MAX_BLOB_BYTES, 8),
        (1_024, MAX_BLOB_BYTES, 227),
        (6_656, MAX_BLOB_BYTES, 227),
        (1_024, PACKED_BLOB_BYTES, 384),
        (1_024, Q8_MAX_BLOB_BYTES, 101),
        (1_024, STREAM_RING_BYTES // 16, 16),
        (1_024, STREAM_RING_BYTES, 16),
    ],
)
def test_the_ring_of_the_rule(chunk_tokens: int, max_blob_bytes: int, num_slots: int) -> None:
    model = inventory(blob_bytes=(max_blob_bytes,) * 48, num_experts=256)
    assert ring_rule(model, chunk_tokens=chunk_tokens) == num_slots


def published(**changes: int) -> Plan:
    """The report's shape with one blob size in all layers, on a card with room for a part of it."""
    model = inventory(blob_bytes=(MAX_BLOB_BYTES,) * 8, num_experts=256)
    model = replace(model, drafter=DrafterInventory(256, 2_764_800, ()))
    options = PlanOptions(model.context_tokens, min_cache_slots=8, **changes)
    plan = plan_card(model, 2_048 * MIB, options)
    assert isinstance(plan, Plan), plan
    return plan


def test_the_block_of_the_report_lies_on_the_card_as_its_experts_do() -> None:
    plan = published()
    assert plan.inventory.drafter is not None
    assert plan.block.size_bytes == plan.inventory.drafter.block_bytes == BLOCK_BYTES
    assert plan.region("block") == plan.block


def test_room_slots_lie_one_stride_apart_from_the_start_of_the_block() -> None:
    plan = published()
    stride_bytes = plan.inventory.stride_bytes
    starts = [plan.block.offset_bytes + index * stride_bytes for index in range(303)]
    assert plan.room == tuple(Extent(start, stride_bytes) for start in starts)
    assert plan.room[-1].end_bytes <= plan.block.end_bytes < plan.room[-1].end_bytes + stride_bytes


def test_the_room_makes_a_ring_of_399_of_one_of_96_and_leaves_the_chunk_alone() -> None:
    plan = published(ring_slots=96)
    read = plan.read(plan.options.context_tokens)
    wide = read.with_room(plan.room)
    assert (len(read.layout.ring), len(wide.layout.ring), wide.num_rule_slots) == (96, 399, 96)
    assert wide.layout.ring == (*read.layout.ring, *plan.room)
    assert replace(wide, layout=read.layout) == read


@given(
    path_tokens=st.integers(1, 8_192),
    max_blob_bytes=st.sampled_from([PACKED_BLOB_BYTES, MAX_BLOB_BYTES, Q8_MAX_BLOB_BYTES]),
    arena_mib=st.integers(1_600, 6_000),
    num_drafter_experts=st.sampled_from([8, 64, 256]),
    ring_slots=st.sampled_from([None, None, None, 96]),
)
@example(path_tokens=5_041, max_blob_bytes=MAX_BLOB_BYTES, arena_mib=4_000, num_drafter_experts=256, ring_slots=None)
def test_a_third_of_the_ring_makes_way_for_the_room_and_nothing_else_changes(
    path_tokens: int, max_blob_bytes: int, arena_mib: int, num_drafter_experts: int, ring_slots: int | None
) -> None:
    model = inventory(blob_bytes=(max_blob_bytes,) * 8, num_experts=256)
    model = replace(model, drafter=DrafterInventory(num_drafter_experts, 2_764_800, ()))
    options = PlanOptions(model.context_tokens, min_cache_slots=8, ring_slots=ring_slots)
    plan = plan_card(model, arena_mib * MIB, options)
    if not isinstance(plan, Plan):
        return
    path_tokens = min(path_tokens, model.context_tokens)
    alone, beside = plan.read(path_tokens), plan.read(path_tokens, has_room=True)
    assert beside.layout.chunk_tokens == alone.layout.chunk_tokens
    streams = alone.layout.chunk_tokens >= STREAM_ALL_TOKENS
    if plan.lendable is None or ring_slots is not None or not streams:
        assert beside == alone
        return
    rule = ring_rule(model, chunk_tokens=alone.layout.chunk_tokens)
    num_less = min(rule // 3, len(plan.room))
    num_missing = model.num_pairs - len(plan.slots)
    assert beside.num_rule_slots == min(rule - num_less, max(1, num_missing + len(beside.lent)))
    assert len(beside.with_room(plan.room).layout.ring) >= len(alone.layout.ring)
    assert beside.lent == alone.lent[len(alone.lent) - len(beside.lent) :]
    assert beside.extent.end_bytes == alone.extent.end_bytes
    spared_bytes = beside.extent.offset_bytes - alone.extent.offset_bytes
    assert abs(spared_bytes - num_less * model.stride_bytes) < model.stride_bytes or not beside.lent
    end_bytes = max(extent.end_bytes for extent in beside.layout.ring)
    assert end_bytes <= beside.extent.end_bytes


CHAT_TOKENS = 5_042
"""A conversation of the report; its turns read 61, 7 and 7 tokens behind what is there already."""


@pytest.mark.parametrize(
    ("room_min_tokens", "read_from", "num_tokens", "takes"),
    [
        (1_024, 0, CHAT_TOKENS, True),
        (1_024, CHAT_TOKENS, CHAT_TOKENS + 61, False),
        (1_024, CHAT_TOKENS + 61, CHAT_TOKENS + 68, False),
        (1_024, CHAT_TOKENS + 68, CHAT_TOKENS + 75, False),
        (1_024, 0, CHAT_TOKENS + 75, True),  # the same turn, read again from 0
        (1_024, 0, 1_024, True),
        (1_024, 0, 1_023, False),
        (0, CHAT_TOKENS + 68, CHAT_TOKENS + 75, True),
        (-1, 0, CHAT_TOKENS, False),
    ],
)
def test_the_room_is_taken_for_fresh_tokens_not_for_long_prompts(
    room_min_tokens: int, read_from: int, num_tokens: int, takes: bool
) -> None:
    policy = LendingPolicy(room_min_tokens=room_min_tokens)
    assert (policy.decline(num_tokens - read_from, is_out=False, moves_block=False).room == "") is takes


def test_a_model_without_a_drafter_has_no_room() -> None:
    model = inventory(blob_bytes=(MAX_BLOB_BYTES,) * 2, num_experts=8)
    fixed = carve_fixed(model, PlanOptions(model.context_tokens))
    assert fixed.block.size_bytes == 0
