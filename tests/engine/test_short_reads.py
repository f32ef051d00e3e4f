"""Reads of a few fresh tokens through decode windows: nothing is lent, and what was is home before they read."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.core.commands import Copy, GraphLaunch, Launch, Stream, Transfer
from strata.core.errors import DeviceError
from strata.core.inventory import ModelInventory
from strata.core.memory.planner import Plan, plan_card
from strata.core.memory.policy import LendingPolicy
from strata.core.memory.shapes import PlanOptions
from strata.core.serving.launches import Recipe
from strata.engine.graphs import start_graphs
from tests.engine.every_command import SHARDS, fail_once, indexes_of, kinds_of
from tests.engine.symbolic_card import Card, dense_reads, drafting_inventory, hybrid_inventory, prompt, symbolic_card

ROOM = LendingPolicy(room_min_tokens=0, short_read_tokens=64)
ALL = LendingPolicy(
    room_min_tokens=0,
    is_elastic=True,
    lends_block=True,
    lends_head=True,
    repeat_min_tokens=256,
    short_read_tokens=64,
)


def card(
    policy: LendingPolicy = ROOM, *, window_rows: int = 3, model: ModelInventory | None = None, **rest: object
) -> Card:
    inventory = drafting_inventory() if model is None else model
    options = PlanOptions(
        4096,
        min_cache_slots=4,
        ring_slots=4,
        window_rows=window_rows,
        policy=policy,
        segment_bytes=1 << 16,
        checkpoint_bytes=1 << 14,
    )
    return symbolic_card(inventory, options, arena_bytes=12 << 17, **rest)  # type: ignore[arg-type]


def graphs(served: Card) -> list[str]:
    return [command.graph for command in served.commands if isinstance(command, GraphLaunch)]


def has_chunks(served: Card) -> bool:
    return any(isinstance(command, Launch) and command.stream is Stream.PROMPT for command in served.commands)


def test_a_short_continuation_opens_the_room_and_writes_no_byte_of_it():
    """At MIN=0: the counter goes up by one, 0 bytes are dirtied and 0 copied back (`lending.md` 3.1). The last token
    held is read again, for the drafter."""
    served = card()
    served.serve(prompt(600))
    del served.commands[:]
    before = served.runner.snapshot().counts
    held = len(served.runner._state.at.session.ids)
    request = replace(prompt(600), prompt_ids=(*served.runner._state.at.session.ids, 5, 6, 7, 8, 9, 10))
    assert served.serve(request) == 2
    counts, facts = served.runner.snapshot().counts, served.runner.read_facts()
    assert (facts.read_from, facts.window_rows, facts.chunk_tokens, facts.no_room) == (held - 1, 3, 0, "")
    assert (counts.num_rooms - before.num_rooms, facts.room_bytes, facts.ring_entries) == (1, 0, 0)
    assert (counts.num_loans, facts.lent_slots, facts.refilled_bytes) == (before.num_loans, 0, 0)
    assert graphs(served)[:3] == ["read 3", "read 3", "window 1"] and not has_chunks(served)
    copies = [pair for each in served.commands if isinstance(each, Copy) for pair in each.pairs]
    assert not [pair for pair in copies if getattr(pair.target, "owner", "") in ("prompt", "block", "cache")]


@pytest.mark.parametrize(("fresh_tokens", "is_short"), [(1, False), (2, True), (63, True), (64, True), (65, False)])
def test_windows_read_up_to_the_threshold_and_chunks_beyond_it(fresh_tokens: int, is_short: bool):
    served = card()
    served.serve(prompt(fresh_tokens))
    assert (served.runner.read_facts().window_rows > 0) == is_short
    assert has_chunks(served) == (fresh_tokens == 65)
    assert sum(graph.startswith("read") for graph in graphs(served)) == (-(-(fresh_tokens - 1) // 3) if is_short else 0)


def test_without_the_option_nothing_is_captured_for_it():
    served = card(replace(ROOM, short_read_tokens=0))
    assert not [name for name in served.device._graphs if name.startswith("read")]
    assert [name for name in card().device._graphs if name.startswith("read")] == ["read 1", "read 2", "read 3"]


def test_a_stage_without_a_head_captures_windows_that_read_and_no_others():
    """It samples nothing, so neither `window N` nor `commit N` is ever launched there."""
    inventory = replace(hybrid_inventory(), has_head=False, journal_bytes=64)
    plan = plan_card(inventory, 1 << 20, PlanOptions(4096, min_cache_slots=4, ring_slots=4, window_rows=2))
    assert isinstance(plan, Plan)
    assert [name for name, _ in start_graphs(Recipe(plan, dense_reads(inventory)))] == ["read 1", "read 2"]


@given(
    num_tokens=st.integers(1, 80),
    cancel=st.none() | st.integers(0, 40),
    window_rows=st.integers(1, 8),
    policy=st.sampled_from((ROOM, ALL)),
    seed=st.integers(0, 99),
)
def test_short_reads_pass_every_check(num_tokens, cancel, window_rows, policy, seed):
    served = card(policy, window_rows=window_rows, seed=seed)
    served.serve(prompt(num_tokens, max_tokens=4), cancel_after_steps=cancel)
    assert served.serve(prompt(40, max_tokens=4, first=1)) == 4
    assert served.serve(prompt(700, max_tokens=3, first=2)) == 3
    assert not served.runner._state.at.is_lending


def test_what_was_lent_at_start_is_home_before_a_window_reads():
    """`lending.md` 3.2: a first request too short for a read restores first, then runs its windows."""
    served = card(ALL)
    served.serve(prompt(20))
    first_read = graphs(served).index("read 3")
    index = [i for i, each in enumerate(served.commands) if isinstance(each, GraphLaunch)][first_read]
    comes = [each.taker for each in served.commands[:index] if isinstance(each, Transfer) and each.giver == ""]
    assert {"verifier", "block", "head"} <= set(comes[-4:])
    facts = served.runner.read_facts()
    assert facts.restored_bytes > 0 and facts.moved_segments == 0 and facts.no_room == "block_deferred"


@pytest.mark.parametrize("cancel", [None, 1, 3])
def test_a_hybrid_keeps_its_state_right_and_its_checkpoints(cancel: int | None):
    """Behind a read that windows did, a checkpoint is listed at the cut; a window that was given up tears a session."""
    served = card(replace(ROOM, room_min_tokens=-1), window_rows=1, model=hybrid_inventory())
    ids = (*(3 + i % 20 for i in range(10)), 1, *(3 + i % 17 for i in range(20)))
    request = replace(prompt(1), prompt_ids=ids)
    served.serve(request, cancel_after_steps=cancel)
    at = served.runner._state.at
    assert [each.position for each in at.checkpoints.listed] == ([11] if cancel is None else [])
    assert at.session.is_torn == (cancel is not None)
    edited = replace(request, prompt_ids=(*ids[:15], 2, 2))
    served.serve(edited)
    assert served.runner.read_facts().read_from == (11 if cancel is None else 0)


@pytest.mark.slow
@SHARDS
@pytest.mark.parametrize("policy", [ROOM, pytest.param(ALL, marks=pytest.mark.soak)])
def test_whatever_fails_the_next_request_is_answered(policy: LendingPolicy, shard: int):
    clean = card(policy)
    start = len(clean.commands)
    clean.serve(prompt(12, max_tokens=4))
    commands = clean.commands[start:]
    for index in indexes_of(len(commands), shard):
        served = card(policy, faults=fail_once(start + index, "failed"))
        before = served.device.card_map()
        try:
            served.serve(prompt(12, max_tokens=4))
        except DeviceError:
            served.runner.recover()
        assert not served.runner._state.at.is_lending
        assert policy is ALL or served.device.card_map() == before
        assert served.serve(prompt(30, max_tokens=4, first=1)) == 4
    assert {"GraphLaunch", "Notify", "Copy"} <= kinds_of(commands)
