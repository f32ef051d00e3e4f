"""Cuts and checkpoints: where a conversation is cut, and which state a prompt may go on from."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.core.inventory import ModelInventory
from strata.core.memory.planner import Plan, plan_card
from strata.core.memory.shapes import PlanOptions
from strata.core.serving.checkpoints import Checkpoint, Checkpoints, num_checkpoints
from strata.core.serving.cuts import CUT_EVERY_TOKENS, cuts_of
from strata.core.serving.prefix import Session
from tests.engine.symbolic_card import drafting_inventory, small_inventory

ENDS = frozenset({7, 8})
IDS = st.lists(st.sampled_from((0, 1, 2, 7)), max_size=60).map(tuple)


@pytest.mark.parametrize(
    ("ids", "cuts"),
    [
        ((), ()),
        ((7,), (1,)),
        ((1, 2, 7, 3, 8, 4), (3, 5)),
        ((7, 7), (1, 2)),
        ((1,) * CUT_EVERY_TOKENS, (CUT_EVERY_TOKENS,)),
        ((1,) * (CUT_EVERY_TOKENS - 1), ()),
        ((1, 7, *(1,) * 5000), (2, 2 + CUT_EVERY_TOKENS, 2 + 2 * CUT_EVERY_TOKENS)),
        ((*(1,) * (CUT_EVERY_TOKENS - 1), 7, 7), (CUT_EVERY_TOKENS, CUT_EVERY_TOKENS + 1)),
    ],
)
def test_a_conversation_is_cut_behind_each_turn_and_every_2048_tokens(ids: tuple[int, ...], cuts: tuple[int, ...]):
    assert cuts_of(ids, turn_ends=ENDS) == cuts


@given(IDS, IDS, st.integers(0, 4200))
def test_what_follows_moves_no_cut(ids, more, padding: int):
    """So a cut is the same for every chunk, and for a warm read as for a cold one."""
    first = (*ids, *(1,) * padding)
    cuts = cuts_of((*first, *more), turn_ends=ENDS)
    assert cuts_of(first, turn_ends=ENDS) == tuple(cut for cut in cuts if cut <= len(first))
    for last_cut, cut in zip((0, *cuts), cuts, strict=False):
        assert cut - last_cut <= CUT_EVERY_TOKENS


def full(*positions: int, num_slots: int = 4) -> Checkpoints:
    """A checkpoint at each position, in slots from 0 on; the last one was used last."""
    checkpoints = Checkpoints(num_slots)
    for position in positions:
        checkpoints = checkpoints.place(position)[0].landed()
    return checkpoints


def test_a_prompt_goes_on_from_the_last_checkpoint_in_what_it_shares():
    session = Session(tuple(range(100)))
    checkpoints = full(30, 10, 60)
    for shared, position in ((5, None), (10, 10), (59, 30), (60, 60), (99, 60)):
        found = checkpoints.resume(session, (*range(shared), 500, 501))
        assert (found.position if found else None) == position, shared
    assert checkpoints.resume(session, tuple(range(60))) == Checkpoint(30, 0)  # at most n - 1 tokens are taken over
    assert checkpoints.resume(session, tuple(range(61))) == Checkpoint(60, 2)


def test_the_least_recently_used_goes_for_a_new_one():
    checkpoints = full(10, 20, 30, num_slots=3)
    placed, new = checkpoints.place(40)
    assert (placed.listed, new, placed.num_evicted) == ((Checkpoint(20, 1), Checkpoint(30, 2)), Checkpoint(40, 0), 1)
    placed, new = checkpoints.used(Checkpoint(10, 0)).place(40)
    assert (placed.listed, new) == ((Checkpoint(30, 2), Checkpoint(10, 0)), Checkpoint(40, 1))
    assert (placed.num_saved, placed.num_restored) == (3, 1)
    only, new = full(10, num_slots=1).place(40)
    assert (only.listed, new, only.landed().listed) == ((), Checkpoint(40, 0), (Checkpoint(40, 0),))


def test_slots_without_number_cost_nothing():
    """A budget is slots of a small state by the hundred thousand, and more than memory has room for their numbers."""
    checkpoints = Checkpoints(1 << 60)
    placed, first = checkpoints.place(10)
    placed, second = placed.landed().place(20)
    assert (first, second) == (Checkpoint(10, 0), Checkpoint(20, 1))
    with pytest.raises(AssertionError):
        Checkpoints(1 << 60, (Checkpoint(10, 1 << 60),))


def test_nothing_is_listed_before_its_copy_has_landed():
    placed, new = full(10).place(20)
    assert placed.resume(Session(tuple(range(50))), (*range(40), 500)) == Checkpoint(10, 0)
    assert placed.landed().resume(Session(tuple(range(50))), (*range(40), 500)) == new
    assert placed.kept(20).landed().listed[-1] == new
    assert placed.kept(19).landed() == full(10)  # the command that wrote it, or the chunk before it, failed
    assert full(10).landed() == full(10)


@given(IDS, st.integers(0, 4200), st.integers(0, 4))
def test_a_read_stops_only_where_what_it_leaves_stays(turn, padding: int, num_slots: int):
    """At no more cuts than there are slots, and never behind the token before the last."""
    ids = (*turn, *(1,) * padding, *turn)
    wanted = Checkpoints(num_slots).wanted(ids, ENDS)
    cuts = cuts_of(ids[:-1], turn_ends=ENDS)
    assert wanted == cuts[max(0, len(cuts) - num_slots) :]
    assert [each.position for each in full(*wanted, num_slots=num_slots).listed] == list(wanted)


OPERATIONS = st.lists(st.tuples(st.sampled_from(("grow", "cut", "take", "resume")), st.integers(0, 60)), max_size=40)


@given(OPERATIONS, st.integers(0, 4))
def test_a_checkpoint_holds_the_tokens_it_was_taken_at(operations, num_slots: int):
    """Against a model that keeps the tokens themselves in each slot (invariant 38)."""
    session, checkpoints = Session(), Checkpoints(num_slots)
    slots: dict[int, tuple[int, ...]] = {}
    for step, (kind, number) in enumerate(operations):
        if kind == "grow":
            session = session.grown(*(step * 100 + i for i in range(number)))
        elif kind == "cut":
            session = session.kept(min(number, len(session.ids)))
            checkpoints = checkpoints.kept(len(session.ids))
        elif kind == "take" and num_slots and len(session.ids) not in {each.position for each in checkpoints.listed}:
            checkpoints, taken = checkpoints.place(len(session.ids))
            slots[taken.slot_index] = session.ids
            checkpoints = checkpoints.landed()
        elif kind == "resume":
            shared = min(number, len(session.ids))
            found = checkpoints.resume(session, (*session.ids[:shared], -1, -2))
            best = max((len(ids) for ids in listed(checkpoints, slots) if len(ids) <= shared), default=None)
            assert (found.position if found else None) == best
            checkpoints = checkpoints if found is None else checkpoints.used(found)
        for ids in listed(checkpoints, slots):
            assert session.ids[: len(ids)] == ids


def listed(checkpoints: Checkpoints, slots: dict[int, tuple[int, ...]]) -> list[tuple[int, ...]]:
    return [slots[each.slot_index] for each in checkpoints.listed]


@given(IDS, st.integers(0, 6000))
def test_an_edit_reads_no_more_than_one_interval_too_much(turn, edit: int):
    """With room for all cuts, what is read again before the first new token lies behind the last cut before it."""
    ids = (*turn, *(1,) * 3000, 7, *turn, *(2,) * 3000)
    session, cuts = Session(ids), cuts_of(ids, turn_ends=ENDS)
    shared = min(edit, len(ids) - 1)
    found = full(*cuts, num_slots=len(cuts)).resume(session, (*ids[:shared], 500, 501))
    assert shared - (found.position if found else 0) < CUT_EVERY_TOKENS


def test_two_in_one_slot_or_at_one_position_are_a_fault():
    for wrong in (Checkpoint(10, 1), Checkpoint(20, 0), Checkpoint(30, 4)):
        with pytest.raises(AssertionError):
            Checkpoints(4, (Checkpoint(10, 0), wrong))


def test_the_budget_is_slots_of_all_state_of_the_model():
    """With what drafts, of the hidden row of the last token too: 16 bytes."""
    assert slots_of(small_inventory(), 10_000) == slots_of(drafting_inventory(), 10_000) == 0
    recurrent = replace(small_inventory(), state_bytes=(1000, 0, 280, 0))
    assert [slots_of(recurrent, size) for size in (1279, 1280, 5119, 5120)] == [0, 1, 3, 4]
    drafting = replace(drafting_inventory(), state_bytes=(1000, 0, 280, 0))
    assert [slots_of(drafting, size) for size in (1535, 1536, 3071, 3072)] == [0, 1, 1, 2]
    assert slots_of(drafting, 1280, window_rows=1) == 1


def slots_of(inventory: ModelInventory, budget_bytes: int, *, window_rows: int = 2) -> int:
    options = PlanOptions(4096, window_rows=window_rows, min_cache_slots=4, checkpoint_bytes=budget_bytes)
    plan = plan_card(inventory, 4 << 20, options)
    assert isinstance(plan, Plan)
    return num_checkpoints(plan)
