"""The memory plan: exact refusals, disjoint regions, and more bytes never give a smaller plan."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.core.errors import Refusal
from strata.core.inventory import DrafterInventory, ModelInventory, StateKind, WeightItem
from strata.core.memory.bump import Bump
from strata.core.memory.layout import carve_prompt, price_prompt
from strata.core.memory.planner import Plan, plan_card
from strata.core.memory.policy import LendingPolicy
from strata.core.memory.shapes import PlanOptions, ring_rule
from strata.core.memory.staging import DIGEST_BYTES
from strata.core.serving.masters import masters_of, pairs_home
from strata.core.units import KIB, MIB
from strata.plan_check import check_plan
from tests.engine.symbolic_card import drafting_inventory


def inventory(*, blob_bytes: tuple[int, ...] = (700, 0, 512, 640), num_experts: int = 12) -> ModelInventory:
    return ModelInventory(
        architecture="test",
        num_layers=len(blob_bytes),
        hidden_size=8,
        num_heads=2,
        num_kv_heads=1,
        head_dim=4,
        vocab_size=50,
        context_tokens=4096,
        num_experts=num_experts,
        num_experts_used=2,
        weights=(WeightItem("token_embd.weight", 1600), WeightItem("output_norm.weight", 32)),
        blob_bytes=blob_bytes,
    )


def planned(arena_bytes: int, model: ModelInventory | None = None, **options: int) -> Plan:
    plan = plan_card(model or inventory(), arena_bytes, PlanOptions(**{"context_tokens": 300, **options}))
    assert not isinstance(plan, Refusal), plan
    return plan


def test_an_arena_of_its_own_is_kept_where_a_loan_would_give_a_smaller_chunk():
    """A quarter of what is left takes 512 tokens; the cache keeps 128 slots and may lend too few of the rest."""
    model = inventory(blob_bytes=(4000, 0, 4000), num_experts=150)
    plan = planned(700_000, model, context_tokens=600)
    assert plan.no_loan == "a loan would give chunks of 256 tokens only"
    assert (plan.lendable, plan.prompt.chunk_tokens) == (None, 512)
    assert planned(730_000, model, context_tokens=600).lendable is not None


@given(blob_bytes=st.integers(1, 20_000), num_experts=st.integers(2, 40))
def test_a_plan_that_verifies_has_a_word_for_every_piece_that_can_come_home_at_once(blob_bytes, num_experts):
    heads = (WeightItem("blk.4.nextn.head", 900),)
    model = replace(drafting_inventory(), drafter=DrafterInventory(num_experts, blob_bytes, (), heads))
    policy = LendingPolicy(is_elastic=True, lends_block=True, lends_head=True)
    options = PlanOptions(4096, min_cache_slots=4, policy=policy, segment_bytes=1 << 10)
    plan, verified = (
        plan_card(model, 2 * MIB, replace(options, policy=replace(policy, is_verified=is_verified)))
        for is_verified in (False, True)
    )
    assert isinstance(plan, Plan) and isinstance(verified, Plan)
    pieces = [list(pairs_home(masters_of(verified, "block"), slot, owner="prompt")) for slot in verified.room]
    num_pieces = len(verified.slots) + max(sum(map(len, pieces)), num_experts) + len(("blk.4.nextn.head", "head"))
    assert plan.staging.digests.size_bytes == 0
    assert verified.staging.digests.size_bytes >= num_pieces * DIGEST_BYTES


def test_a_loan_whose_parts_fill_no_segment_or_no_ring_slot_is_refused():
    """And no larger card would help."""
    elastic = PlanOptions(300, policy=LendingPolicy(is_elastic=True), segment_bytes=MIB)
    refused = plan_card(inventory(), 8 * MIB, elastic)
    assert isinstance(refused, Refusal) and "only whole ones are moved" in refused.reason
    assert refused.shortfall_bytes == 0
    narrow = replace(drafting_inventory(), drafter=DrafterInventory(3, 2000, ()))
    refused = plan_card(narrow, 8 * MIB, PlanOptions(300, policy=LendingPolicy(room_min_tokens=0)))
    assert isinstance(refused, Refusal) and refused.shortfall_bytes == 0
    assert refused.reason == (
        "room refused: the drafter's block has 6,144 B, a ring slot 8,192 B; unset STRATA_MTP_ROOM_MIN"
    )


def test_every_card_either_gets_a_plan_or_the_exact_bytes_that_are_missing():
    smallest = planned(MIB).end_bytes
    refused = accepted = 0
    for arena_bytes in range(0, smallest + 2000, 256):
        plan = plan_card(inventory(), arena_bytes, PlanOptions(300))
        if isinstance(plan, Refusal):
            refused += 1
            assert f"{plan.shortfall_bytes:,} B are missing" in plan.reason
            mended = arena_bytes + plan.shortfall_bytes
            assert isinstance(plan_card(inventory(), mended, PlanOptions(300)), Plan)
            assert isinstance(plan_card(inventory(), mended - 1, PlanOptions(300)), Refusal)
        else:
            accepted += 1
            assert plan.end_bytes <= arena_bytes
    assert refused
    assert accepted


@given(
    arena_bytes=st.integers(0, 2 * MIB),
    blob_bytes=st.lists(st.sampled_from((0, 300, 512, 5000)), min_size=1, max_size=5).map(tuple),
    num_experts=st.integers(2, 40),
    context_tokens=st.integers(2, 4096),
    window_rows=st.integers(1, 8),
    min_cache_slots=st.none() | st.integers(2, 20),
)
def test_regions_and_buffers_of_a_plan_are_disjoint(
    arena_bytes, blob_bytes, num_experts, context_tokens, window_rows, min_cache_slots
):
    model = inventory(blob_bytes=blob_bytes, num_experts=num_experts)
    options = PlanOptions(context_tokens, window_rows=window_rows, min_cache_slots=min_cache_slots)
    plan = plan_card(model, arena_bytes, options)
    if isinstance(plan, Refusal):
        assert plan.shortfall_bytes > 0
        return
    check_plan(plan)
    if plan.lendable is not None:
        _check_reads(plan)
        return
    passes = (plan.prompt.buffers, plan.verifier.buffers)
    extents = [getattr(buffers, name) for buffers in passes for name in buffers.__dataclass_fields__]
    extents = [extent for extent in extents if not isinstance(extent, int)]
    extents += [getattr(plan.verifier.window, name) for name in plan.verifier.window.__dataclass_fields__]
    extents += [*plan.weights.values(), plan.table, *plan.kv, plan.prompt.addresses, *plan.prompt.ring]
    extents += [slot.extent for slot in plan.slots]
    extents = sorted(extent for extent in extents if extent.size_bytes)
    assert all(a.end_bytes <= b.offset_bytes for a, b in itertools.pairwise(extents))
    assert all(extent.offset_bytes % 256 == 0 for extent in extents)


def _check_reads(plan: Plan) -> None:
    """A read of any length works in the lent tail of the cache and nowhere else, and leaves the floor of slots."""
    for path_tokens in (1, 255, 256, 257, 1023, 1024, 4095):
        read = plan.read(path_tokens)
        assert read.lent
        assert read.lent == plan.slots[len(plan.slots) - len(read.lent) :]
        assert len(plan.slots) - len(read.lent) >= (plan.options.min_cache_slots or 128)
        buffers = [getattr(read.layout.buffers, name) for name in read.layout.buffers.__dataclass_fields__]
        extents = [extent for extent in buffers if not isinstance(extent, int)]
        extents = sorted(e for e in (*extents, read.layout.addresses, *read.layout.ring) if e.size_bytes)
        assert all(a.end_bytes <= b.offset_bytes for a, b in itertools.pairwise(extents))
        assert all(read.extent.contains(extent) for extent in extents)
        assert all(read.extent.contains(slot.extent) for slot in read.lent)
        assert not any(read.extent.overlaps(slot.extent) for slot in plan.slots[: len(plan.slots) - len(read.lent)])


def test_lending_plans_are_among_those_that_are_checked():
    plan = planned(MIB // 2, inventory(blob_bytes=(5000,) * 4, num_experts=40), min_cache_slots=4)
    assert plan.lendable is not None
    assert plan.read(2).lent
    _check_reads(plan)


@given(st.integers(0, 1500 * KIB), st.integers(0, 1500 * KIB), st.none() | st.integers(2, 20))
def test_more_bytes_never_give_a_smaller_plan(first, second, min_cache_slots):
    """Everything resident counts as more than any chunk: there is nothing left to stream then."""
    model = inventory(blob_bytes=(5000, 0, 4000, 5000), num_experts=40)

    def size(arena_bytes: int) -> tuple[bool, bool, int, int]:
        plan = plan_card(model, arena_bytes, PlanOptions(2000, min_cache_slots=min_cache_slots))
        if isinstance(plan, Refusal):
            return (False, False, 0, 0)
        return (True, plan.num_missing_pairs == 0, plan.prompt.chunk_tokens, len(plan.slots))

    small, large = sorted((first, second))
    assert size(small) <= size(large)


@given(chunk_tokens=st.integers(1, 9000), ring_slots=st.integers(0, 500), base=st.integers(0, 10**9))
def test_price_is_carve(chunk_tokens, ring_slots, base):
    bump = Bump(base)
    start = bump.offset_bytes
    sizes = {"chunk_tokens": chunk_tokens, "ring_slots": ring_slots}
    carve_prompt(bump, inventory(), **sizes, scratch=None)
    price_bytes = price_prompt(inventory(), **sizes, has_slab=True)
    assert bump.offset_bytes - start == price_bytes


def test_residents_are_spread_evenly_over_the_layers_with_experts():
    plan = planned(MIB, num_cache_slots=8)
    by_layer = [sum(slot.layer == layer for slot in plan.slots) for layer in range(4)]
    assert by_layer == [3, 0, 3, 2]


def test_everything_resident_needs_no_ring():
    plan = planned(MIB)
    assert (plan.num_missing_pairs, plan.prompt.ring) == (0, ())


def test_a_ring_is_never_longer_than_what_is_missing():
    model = inventory(blob_bytes=(4000,) * 6, num_experts=40)
    plan = planned(3 * MIB, model, chunk_tokens=1024, num_cache_slots=200)
    assert plan.num_missing_pairs == 40
    assert len(plan.prompt.ring) == 40 + len(plan.read(1024).lent)  # what is lent is missing too


def test_a_dense_model_has_neither_ring_nor_cache():
    plan = planned(MIB, inventory(blob_bytes=(0, 0), num_experts=0))
    assert (plan.prompt.ring, plan.slots, plan.table.size_bytes) == ((), (), 0)


@pytest.mark.parametrize(
    ("max_blob_bytes", "chunk_tokens", "ring_slots"),
    [(2_329_600, 6656, 227), (5_222_400, 6656, 101), (2_329_600, 1023, 8), (1_382_400, 1024, 384), (10**9, 4096, 16)],
)
def test_the_ring_rule_is_a_byte_budget(max_blob_bytes, chunk_tokens, ring_slots):
    model = inventory(blob_bytes=(max_blob_bytes,), num_experts=512)
    assert ring_rule(model, chunk_tokens=chunk_tokens) == ring_slots


def test_a_cache_without_a_slot_for_one_token_is_refused():
    plan = plan_card(inventory(), 40 * KIB, PlanOptions(300))
    assert isinstance(plan, Refusal)
    assert "raise --vram or lower --ctx" in plan.reason


def hybrid() -> ModelInventory:
    """Layers 0 and 2 are recurrent, and one of them needs wider buffers than attention."""
    return replace(inventory(), state_bytes=(1000, 0, 1000, 0), mixer_floats=100, journal_bytes=300)


def test_a_layer_has_kv_or_state_and_each_state_a_place_of_its_own():
    plan = planned(MIB, hybrid())
    assert [extent.size_bytes for extent in plan.state] == [1000, 0, 1000, 0]
    assert [extent.size_bytes > 0 for extent in plan.kv] == [False, True, False, True]
    regions = {region.name: region.extent for region in plan.regions}
    assert [name for name in regions if name in ("kv", "state")] == ["kv", "state"]
    assert regions["kv"].end_bytes <= plan.state[0].offset_bytes
    assert plan.state[0].end_bytes <= plan.state[2].offset_bytes
    assert "state" not in {region.name for region in planned(MIB).regions}


def test_mixer_buffers_are_as_wide_as_the_widest_layer():
    plan, plain = planned(MIB, hybrid()), planned(MIB)
    assert plan.verifier.buffers.attention.size_bytes == 4 * 100
    assert plain.verifier.buffers.attention.size_bytes == 4 * 2 * (2 + 1) * 4


def test_a_model_is_of_the_kinds_of_state_that_its_layers_have():
    assert inventory().state_kinds == {StateKind.KV}
    assert hybrid().state_kinds == {StateKind.KV, StateKind.RECURRENT}


def test_only_a_window_of_several_rows_keeps_journals():
    assert not any(extent.size_bytes for extent in planned(MIB, hybrid()).verifier.journals)
    plan = planned(MIB, hybrid(), window_rows=4)
    assert [extent.size_bytes for extent in plan.verifier.journals] == [1200, 0, 1200, 0]
    verifier = next(region.extent for region in plan.regions if region.name == "verifier")
    assert all(verifier.contains(extent) for extent in plan.verifier.journals if extent.size_bytes)
    assert not any(extent.size_bytes for extent in planned(MIB, window_rows=4).verifier.journals)
