"""What `strata plan` says of loans: one row for each way to read, and where the bytes of the longest one come from."""

from dataclasses import replace
from pathlib import Path

import pytest

from strata.commands.plan import lending_line, loans_of, plan_json, plan_lines
from strata.config.switches import LendingSwitches
from strata.config.values import ServeConfig
from strata.core.errors import ConfigError
from strata.core.memory.planner import Plan, plan_card
from strata.core.memory.policy import NO_LENDING, LendingPolicy
from strata.core.memory.shapes import PlanOptions
from strata.core.units import MIB
from strata.planning import plan_model
from tests.engine.scratch_models import working_inventory
from tests.engine.symbolic_card import drafting_inventory

ALL = LendingPolicy(room_min_tokens=0, is_elastic=True, lends_block=True, lends_head=True)
MASTER = LendingPolicy(room_min_tokens=0, is_elastic=True)


def plan_of(policy: LendingPolicy, *, segment_bytes: int = 1 << 16, **rest: object) -> Plan:
    options = PlanOptions(4096, ring_slots=4, policy=policy, segment_bytes=segment_bytes, **rest)  # type: ignore[arg-type]
    plan = plan_card(drafting_inventory(), 15 << 16, options)
    assert isinstance(plan, Plan), plan
    return plan


def test_an_arena_of_its_own_borrows_nothing():
    plan = plan_of(NO_LENDING)
    assert lending_line(plan) == "in an arena of their own"
    told = plan_json(plan)
    assert (told["lent_slots"], told["lent_bytes"]) == (0, 0)
    assert [row["loans"] for row in told["loans"]] == ["none"]
    assert "no loan: the cache has" in plan_lines(plan)[3]


def test_the_longest_read_is_told_with_all_that_it_may_borrow():
    plan = plan_of(ALL, min_cache_slots=4)
    assert plan.zone is not None
    longest = plan.read(4096, has_segments=True)
    told = plan_json(plan)
    assert told["chunk_tokens"] == longest.layout.chunk_tokens > plan.read(4096).layout.chunk_tokens
    assert told["lent_slots"] == len(longest.lent) > 0
    assert told["lent_bytes"] == longest.lent_extent.size_bytes < longest.extent.size_bytes
    assert lending_line(plan).startswith(
        f"on {len(longest.lent)} lent slots and {plan.zone.num_segments} moved segments, "
    )


def test_a_read_on_moved_segments_alone_is_not_said_to_have_an_arena_of_its_own():
    plan = plan_of(ALL, min_cache_slots=4, chunk_tokens=256)
    assert plan.zone is not None
    assert plan.read(4096, has_segments=True).lent == ()
    assert lending_line(plan).startswith(f"on 0 lent slots and {plan.zone.num_segments} moved segments, ")


def test_each_loan_is_told_in_and_out():
    rows = {
        name: len(read.layout.ring) - read.num_rule_slots for name, read in loans_of(plan_of(ALL, min_cache_slots=4))
    }
    assert rows == {"cache slots": 0, "segments": 0, "cache slots + room": 46}  # the block is away with its segments
    plan = plan_of(MASTER, min_cache_slots=4, segment_bytes=1 << 10)
    rows = {name: len(read.layout.ring) - read.num_rule_slots for name, read in loans_of(plan)}
    assert rows == {"cache slots": 0, "segments": 0, "cache slots + room": 46, "segments + room": 46}
    text = "\n".join(plan_lines(plan))
    assert all(f"{name}  " in text for name in rows)
    assert "ring 4 + 46" in text and "segments: " in text


def test_the_plan_says_which_requests_have_segments_lent():
    once = "\n".join(plan_lines(plan_of(MASTER, min_cache_slots=4, segment_bytes=1 << 10)))
    again = "\n".join(plan_lines(plan_of(replace(ALL, repeat_min_tokens=1500), min_cache_slots=4)))
    assert "lent to the first request after the start alone; STRATA_PREFILL_REPEAT_LOAN=1 lends them" in once
    assert "lent to the first request after the start, and to those of 1,500 fresh tokens and more" in again


def slab_plan(**rest: object) -> Plan:
    plan = plan_card(working_inventory(), 6 * MIB, PlanOptions(2500, **rest))  # type: ignore[arg-type]
    assert isinstance(plan, Plan), plan
    return plan


def test_the_plan_says_how_many_more_slots_there_are_with_a_slab():
    on, off = (slab_plan(min_cache_slots=8, has_slab=flag) for flag in (True, False))
    more = len(on.slots) - len(off.slots)
    told = plan_json(on)
    assert (told["slab_bytes"], told["slab_more_cache_slots"]) == (on.prompt.slab_bytes, more)
    assert more > 0 and on.prompt.slab_bytes > 0
    (line,) = (line for line in plan_lines(on) if line.startswith("slab"))
    assert line == f"slab      1.8 MiB of scratch behind the longest read's ring, {more} more cache slots than without"
    told = plan_json(off)
    assert (told["slab_bytes"], told["slab_more_cache_slots"]) == (0, 0)
    assert not [line for line in plan_lines(off) if line.startswith("slab")]
    assert any(region["owner"] == "scratch" for region in told["regions"])


def config(model: Path, *, vram_mib: int) -> ServeConfig:
    """A verifier of less than a segment, alone in the zone."""
    return ServeConfig(
        str(model),
        vram_bytes=vram_mib << 20,
        twin_segment_bytes=2 << 20,
        is_vram_elastic=True,
        switches=LendingSwitches(prefill_elastic_loan=True),
    )


def test_a_larger_card_is_only_advised_where_it_helps(lend_model: Path):
    with pytest.raises(ConfigError) as zone:
        plan_model(config(lend_model, vram_mib=16))
    assert zone.value.reasons[0].endswith("lower the segment size, or lend block and head too")
    with pytest.raises(ConfigError, match=r"are missing; raise --vram.* \(--vram=\d+MiB at least: the card has whole"):
        plan_model(replace(config(lend_model, vram_mib=2), is_vram_elastic=False, switches=LendingSwitches()))


def test_what_is_pageable_is_told_and_what_windows_do_about_it():
    plan, whole = plan_of(NO_LENDING, pinned_bytes=100_000), plan_of(NO_LENDING)
    told = plan_json(plan)
    assert (told["pinned_bytes"], told["pageable_bytes"]) == (100_000, plan.pack.size_bytes - 100_000)
    assert (told["staging_slots"], told["staged_blobs"]) == (2, sum(map(len, plan.staged)))
    assert 0 < told["staged_blobs"] < told["pageable_blobs"] == plan.pack.num_pageable_blobs
    lines = "\n".join(plan_lines(plan))
    assert "97.7 KiB of it pinned, " in lines
    assert f"windows run eagerly by layer: of {told['staged_blobs']} pageable blobs without a slot" in lines
    assert "are staged into 2 slots x 8,192 B" in lines
    assert "pageable" not in "\n".join(plan_lines(whole)) and plan_json(whole)["pageable_bytes"] == 0


def test_pageable_blobs_that_have_a_slot_leave_windows_graphs():
    plan = plan_of(NO_LENDING, pinned_bytes=900_000)
    assert plan.staged == () and plan_json(plan)["staging_slots"] == 0
    assert f"not pinned: {plan.pack.num_pageable_blobs} experts and dense weights; all have a place" in "\n".join(
        plan_lines(plan)
    )
