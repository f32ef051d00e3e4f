"""Drafts and wide windows, judged by the twin: who waits for whom, what is read when, and what the session holds."""

import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.core.commands import GraphLaunch, Stream, Transfer, Wait
from strata.core.errors import DeviceError
from strata.core.inventory import ModelInventory
from strata.core.memory.policy import LendingPolicy
from strata.core.memory.shapes import PlanOptions
from strata.core.programs import PROBABILITY_WORD
from strata.core.serving.states import Homing, Idle, Windowing
from strata.core.serving.steps import Arrived, Continued, Ended
from strata.core.serving.windows import next_rows
from strata.engine.runner import HasSampled
from tests.engine.every_command import SHARDS, indexes_of, kinds_of
from tests.engine.symbolic_card import Card, drafting_inventory, prompt, symbolic_card

ARENA_BYTES = 12 << 17
SWAPPING_BYTES = 10 << 17
"""Of an arena in which a quarter of the blobs have no slot."""
ROOM = LendingPolicy(room_min_tokens=0)
ALL = LendingPolicy(room_min_tokens=0, is_elastic=True, lends_block=True, lends_head=True, repeat_min_tokens=1024)


def recurrent_inventory() -> ModelInventory:
    return replace(drafting_inventory(), state_bytes=(512, 0, 768, 0), journal_bytes=64)


def card(
    inventory: ModelInventory | None = None,
    *,
    window_rows: int = 4,
    policy: LendingPolicy = ROOM,
    least: float = 0.0,
    num_swaps: int = 0,
    **rest: object,
) -> Card:
    options = PlanOptions(
        4096,
        min_cache_slots=4,
        ring_slots=4,
        window_rows=window_rows,
        policy=policy,
        segment_bytes=1 << 16,
        least_probability=least,
        num_swaps=num_swaps,
        swap_windows=1,
    )
    arena_bytes = SWAPPING_BYTES if num_swaps else ARENA_BYTES
    return symbolic_card(inventory or drafting_inventory(), options, arena_bytes=arena_bytes, **rest)  # type: ignore[arg-type]


def graphs(served: Card) -> list[str]:
    return [command.graph for command in served.commands if isinstance(command, GraphLaunch)]


@given(
    num_tokens=st.integers(1, 1300),
    max_tokens=st.integers(1, 30),
    window_rows=st.integers(1, 8),
    policy=st.sampled_from((ROOM, ALL)),
    is_hybrid=st.booleans(),
    least=st.sampled_from((0.0, 0.5)),
    num_swaps=st.sampled_from((0, 3)),
    seed=st.integers(0, 1 << 16),
)
def test_replies_with_drafts_pass_every_check(
    num_tokens, max_tokens, window_rows, policy, is_hybrid, least, num_swaps, seed
):
    inventory = recurrent_inventory() if is_hybrid else drafting_inventory()
    served = card(inventory, window_rows=window_rows, policy=policy, least=least, num_swaps=num_swaps, seed=seed)
    assert served.serve(prompt(num_tokens, max_tokens=max_tokens)) == max_tokens
    assert served.serve(prompt(200, max_tokens=5, first=1)) == 5


def test_the_first_window_has_one_row_and_no_drafts_before_it():
    served = card()
    served.serve(prompt(300, max_tokens=12))
    names = graphs(served)
    assert names[0] == "window 1"
    assert names[1] == "draft 1"
    assert names[2] == "window 4"
    drafts = [name for name in names if name.startswith("draft")]
    assert set(drafts) <= {f"draft {rows}" for rows in (1, 2, 3, 4)}


def test_drafts_follow_as_many_rows_as_stand():
    served = card()
    served.runner.begin(prompt(300, max_tokens=40))
    standing = []
    while len(standing) < 8:
        served.play()
        outcome = served.runner.advance(is_cancelled=False)
        if isinstance(outcome, HasSampled):
            standing.append(len(outcome.token_ids))
            served.runner.resume(*outcome.token_ids)
    assert [name for name in graphs(served) if name.startswith("draft")] == [f"draft {rows}" for rows in standing]
    assert len(set(standing)) > 1


@pytest.mark.parametrize("inventory", [drafting_inventory(), recurrent_inventory()])
def test_windows_have_rows_for_the_drafts_before_the_first_unlikely_one(inventory):
    served = card(inventory, least=0.5)
    served.runner.begin(prompt(300, max_tokens=60))
    expected = []
    for found in ([0.9, 0.6, 0.5], [0.9, 0.4, 0.9], [0.49, 1.0, 1.0], [0.5, 0.7, float("nan")]):
        outcome = None
        while not isinstance(outcome, HasSampled):
            served.play()
            outcome = served.runner.advance(is_cancelled=False)
        place = served.payload.host(served.plan.staging.result)
        struct.pack_into("<3d", place, 8 * PROBABILITY_WORD, *found)
        served.runner.resume(*outcome.token_ids)
        num_worthy = next((n for n, probability in enumerate(found) if not probability >= 0.5), 3)
        expected.append(f"window {1 + num_worthy}")
    assert [name for name in graphs(served) if name.startswith("window")] == ["window 1", *expected]
    assert expected == ["window 4", "window 2", "window 1", "window 3"]


@pytest.mark.parametrize("num_swaps", [0, 3])
def test_a_reply_that_is_given_up_between_drafts_and_window_leaves_all_at_rest(num_swaps):
    """The runner never does: it looks at drafts in one go. The machine must know all the same, also where a swap has
    begun beside the drafts."""
    served = card(recurrent_inventory(), least=0.5, num_swaps=num_swaps)
    served.hot = frozenset((3, expert) for expert in range(30, 40))
    served.runner.begin(prompt(300, max_tokens=60))
    outcome = None
    while not isinstance(outcome, HasSampled):
        served.play()
        outcome = served.runner.advance(is_cancelled=False)
    served.runner._step(Continued(outcome.token_ids, (), served.runner._expert_reads()))
    if isinstance(served.runner._state, Homing):
        served.runner._gather()
        served.runner._step(Arrived())
    assert isinstance(served.runner._state, Windowing) and served.runner._state.is_drafting
    assert len(served.runner._state.at.cache.moving) == num_swaps
    served.runner._gather()
    served.runner._step(Ended())
    while num_swaps and not isinstance(served.runner._state, Idle):
        served.runner._gather()
        served.runner._step(Arrived())
    assert isinstance(served.runner._state, Idle)
    cache = served.runner._state.at.cache
    assert (cache.moving, cache.landing) == ((), ())
    assert served.serve(prompt(310, max_tokens=9)) == 9


def test_no_window_is_wider_than_what_the_reply_may_still_have():
    served = card()
    assert served.serve(prompt(300, max_tokens=2)) == 2
    assert graphs(served) == ["window 1", "window 1"]  # a window of one row needs no draft


@pytest.mark.parametrize(("window_rows", "num_windows"), [(5, 0), (6, 1), (8, 3)])
def test_the_last_windows_of_a_full_context_are_narrow_where_the_drafter_has_no_cells(window_rows, num_windows):
    """The drafter's last step would write the cell of position 4,096 or one behind it. The last window has one row
    anyway, since one token is left."""
    served = card(window_rows=window_rows)
    served.runner.begin(prompt(4080, max_tokens=16))
    widths = {}
    num_left = 16
    while num_left:
        served.play(num_standing=1)
        outcome = served.runner.advance(is_cancelled=False)
        if isinstance(outcome, HasSampled):
            state = served.runner._state
            assert isinstance(state, Windowing)
            widths[num_left] = state.rows
            num_left -= 1
            if num_left:
                served.runner.resume(*outcome.token_ids)
    narrow = [left for left, rows in widths.items() if rows == 1]
    assert narrow == [16, *range(1 + num_windows, 0, -1)]


def test_nothing_drafts_while_the_block_is_not_at_home():
    """The room is open or its slots are on their way home until the first window is done."""
    served = card()
    served.runner.begin(prompt(2600, max_tokens=12))
    while not isinstance(served.runner._state, Windowing):
        assert Stream.DRAFTER not in {getattr(command, "stream", None) for command in served.commands}
        served.play()
        served.runner.advance(is_cancelled=False)
    assert served.runner._state.at.room is not None
    assert not [name for name in graphs(served) if name.startswith("draft")]


def test_drafter_and_verifier_wait_for_each_other():
    served = card()
    served.serve(prompt(300, max_tokens=12))
    waits = {(command.stream, command.event) for command in served.commands if isinstance(command, Wait)}
    assert {(Stream.DRAFTER, "window_done"), (Stream.VERIFIER, "draft_done")} <= waits


def test_a_reply_that_ends_inside_a_window_keeps_what_it_took():
    served = card()
    served.runner.begin(prompt(300, max_tokens=40))
    taken: list[int] = []
    while True:
        served.play()
        outcome = served.runner.advance(is_cancelled=False)
        if isinstance(outcome, HasSampled):
            if len(outcome.token_ids) >= 3:
                served.runner.end(num_taken=2)
                taken += outcome.token_ids[:2]
                break
            taken += outcome.token_ids
            served.runner.resume(*outcome.token_ids)
    ids = served.runner._state.at.session.ids
    assert ids == (*prompt(300).prompt_ids, *taken[:-1])


@pytest.mark.parametrize("num_taken", [None, 1])
def test_recurrent_state_follows_the_rows_that_were_taken(num_taken):
    """And no further, also where the reply ends inside a window."""
    served = card(recurrent_inventory())
    served.runner.begin(prompt(300, max_tokens=40))
    taken: list[int] = []
    while True:
        served.play()
        outcome = served.runner.advance(is_cancelled=False)
        if isinstance(outcome, HasSampled):
            if len(outcome.token_ids) >= 2:
                served.runner.end(num_taken=num_taken)
                taken += outcome.token_ids[:num_taken]
                break
            taken += outcome.token_ids
            served.runner.resume(*outcome.token_ids)
    assert served.runner._state.at.session.ids == (*prompt(300).prompt_ids, *taken[:-1])
    commits = [name for name in graphs(served) if name.startswith("commit")]
    assert commits[-1] == f"commit {num_taken or len(outcome.token_ids)}"


@given(cancel=st.integers(0, 40), seed=st.integers(0, 99))
def test_a_client_that_leaves_while_it_is_drafted_for_leaves_a_session(cancel, seed):
    served = card(seed=seed)
    served.serve(prompt(300, max_tokens=40), cancel_after_steps=cancel)
    held = served.runner._state.at.session.ids
    assert held[:300] == prompt(300).prompt_ids[: len(held)]
    assert served.serve(prompt(310, max_tokens=4)) == 4


@pytest.mark.parametrize("least", [0.0, 0.5])
def test_a_swap_ordered_behind_a_room_that_does_not_close_is_mended_with_it(least):
    """The first window brings reads, so the step that closes the room exchanges blobs, too; its first act fails."""
    refused = []

    def refuse(number, command):
        if isinstance(command, Transfer) and (command.giver, command.taker) == ("prompt", "block") and not refused:
            refused.append(command)
            raise DeviceError("planted", command)

    served = card(least=least, num_swaps=3, faults=refuse)
    served.hot = frozenset((3, expert) for expert in range(30, 40))
    with pytest.raises(DeviceError, match="planted"):
        served.serve(prompt(40, max_tokens=9))
    moving = served.runner._state.at.cache.moving
    assert refused and len(moving) == 3
    served.runner.recover()
    at = served.runner._state.at
    assert (at.room, at.cache.moving, at.cache.landing) == (None, (), ())
    assert served.serve(prompt(60, max_tokens=9, first=1)) == 9


@pytest.mark.slow
@SHARDS
@pytest.mark.parametrize(
    ("least", "num_swaps"),
    [(0.0, 0), pytest.param(0.5, 0, marks=pytest.mark.soak), pytest.param(0.5, 3, marks=pytest.mark.soak)],
)
def test_whatever_fails_the_next_request_is_drafted_for(shard, least, num_swaps):
    served = card(least=least, num_swaps=num_swaps)
    start = len(served.commands)
    served.serve(prompt(40, max_tokens=9))
    assert (served.runner.snapshot().counts.num_swaps > 0) == (num_swaps > 0)
    commands, hit = served.commands[start:], []
    for index in indexes_of(len(commands), shard):
        failing: list[int] = []

        def fault(number, command, failing=failing):
            if failing and number == failing[0]:
                hit.append(command)
                raise DeviceError("planted", command)

        served = card(faults=fault, least=least, num_swaps=num_swaps)
        failing.append(len(served.commands) + index)
        try:
            served.serve(prompt(40, max_tokens=9))
        except DeviceError:
            failing.clear()
            served.runner.recover()
        del served.commands[:]
        assert served.serve(prompt(60, max_tokens=9, first=1)) == 9
        assert any(name.startswith("draft") for name in graphs(served))
    assert {"GraphLaunch", "Record", "Wait", "Notify", "Copy", "Launch"} <= kinds_of(commands)
    assert len(hit) == len(indexes_of(len(commands), shard))


@pytest.mark.parametrize("window_rows", range(1, 9))
def test_no_draft_lies_past_the_context(window_rows):
    """The drafts of a window are pairs from the session's last token on, one position each; its end is its last."""
    plan = card(window_rows=window_rows).plan
    context = plan.options.context_tokens
    for held_tokens in range(context - 12, context):
        rows = next_rows(plan, position=held_tokens, num_left=30)
        positions = range(held_tokens - 1, held_tokens - 1 + window_rows - 1)
        assert rows == (window_rows if all(position < context for position in positions) else 1)
