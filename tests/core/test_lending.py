"""Ledger, loan and policy by themselves."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.core.commands import Transfer
from strata.core.extent import Extent
from strata.core.lending.ledger import Holding, Ledger
from strata.core.lending.loan import Loan, LoanPhase, reserve
from strata.core.memory.policy import NEVER, NO_LENDING, Declined, LendingPolicy, max_lent_slots
from strata.core.memory.shapes import Slot

BOOKS = Ledger((Holding(Extent(0, 10), "kv"), Holding(Extent(10, 20), "cache")))


@given(st.lists(st.tuples(st.integers(0, 29), st.integers(1, 30), st.sampled_from("abc")), max_size=12))
def test_the_books_agree_with_a_list_of_bytes(moves):
    owners, books = ["a"] * 30, Ledger((Holding(Extent(0, 30), "a"),))
    for start, size, taker in moves:
        end = min(30, start + size)
        transfer = Transfer(Extent(start, end - start), owners[start], taker)
        if set(owners[start:end]) != {owners[start]}:
            with pytest.raises(AssertionError):
                books.after((transfer,))
            continue
        owners[start:end] = taker * (end - start)
        books = books.after((transfer,))
        books.check()
        written = [holding.owner for holding in books.holdings for _ in range(holding.extent.size_bytes)]
        assert written == owners
        assert books.is_owner(taker, transfer.extent)
        assert all(left.owner != right.owner for left, right in itertools.pairwise(books.holdings))


def test_nobody_gives_what_he_does_not_hold():
    with pytest.raises(AssertionError):
        BOOKS.after((Transfer(Extent(5, 10), "cache", "prompt"),))
    with pytest.raises(AssertionError):
        BOOKS.after((Transfer(Extent(40, 10), "cache", "prompt"),))


def test_check_finds_a_gap():
    with pytest.raises(AssertionError):
        Ledger((Holding(Extent(0, 10), "a"), Holding(Extent(11, 5), "b"))).check()


def loan(phase: LoanPhase) -> Loan:
    return Loan(1, Extent(10, 20), (Slot(0, 3, Extent(12, 4)),), phase)


@pytest.mark.parametrize("after", list(LoanPhase))
@pytest.mark.parametrize("before", list(LoanPhase))
def test_a_loan_takes_no_step_that_is_not_in_the_picture(before: LoanPhase, after: LoanPhase):
    legal = {
        (LoanPhase.RESERVED, LoanPhase.LENT),
        (LoanPhase.RESERVED, LoanPhase.RESTORING),
        (LoanPhase.LENT, LoanPhase.RESTORING),
        (LoanPhase.RESTORING, LoanPhase.RESTORING),
    }
    if (before, after) in legal:
        assert loan(before).moved(after).phase is after
    else:
        with pytest.raises(AssertionError, match="is illegal"):
            loan(before).moved(after)


def test_a_loan_is_of_slots_and_holds_all_of_them():
    assert reserve(Extent(10, 20), (Slot(0, 3, Extent(12, 4)),), stamp=7).phase is LoanPhase.RESERVED
    with pytest.raises(AssertionError):
        reserve(Extent(10, 20), (), stamp=7)
    with pytest.raises(AssertionError):
        reserve(Extent(10, 20), (Slot(0, 3, Extent(28, 4)),), stamp=7)


def test_lending_and_giving_back_name_the_same_bytes():
    given_back = loan(LoanPhase.LENT).give_back
    assert loan(LoanPhase.LENT).lend == Transfer(given_back.extent, given_back.taker, given_back.giver)


@pytest.mark.parametrize(
    ("num_slots", "min_cache_slots", "lent"),
    [(2000, 128, 1800), (1000, 128, 872), (128, 128, 0), (10, 128, 0), (100, 0, 90), (7, 2, 5)],
)
def test_floor_and_share_bound_what_may_be_lent(num_slots: int, min_cache_slots: int, lent: int):
    assert max_lent_slots(num_slots, min_cache_slots=min_cache_slots) == lent


ALL = LendingPolicy(room_min_tokens=10, is_elastic=True, lends_block=True, lends_head=True, repeat_min_tokens=300)


@pytest.mark.parametrize(
    ("policy", "fresh_tokens", "is_out", "declined"),
    [
        (NO_LENDING, 5_000, False, Declined("off", "off")),
        (ALL, 9, True, Declined("9 fresh tokens of 10", "")),
        (ALL, 10, True, Declined("block_deferred", "")),
        (ALL, 10, False, Declined("", "10 fresh tokens of 300")),
        (ALL, 299, False, Declined("", "299 fresh tokens of 300")),
        (ALL, 300, False, Declined("block_deferred", "")),
        (replace(ALL, lends_block=False), 300, False, Declined("", "")),
        (replace(ALL, room_min_tokens=0), 1, False, Declined("", "1 fresh tokens of 300")),
        (replace(ALL, repeat_min_tokens=10, short_read_tokens=64), 64, False, Declined("", "read by windows")),
        (replace(ALL, repeat_min_tokens=10, short_read_tokens=64), 65, False, Declined("block_deferred", "")),
        (replace(ALL, repeat_min_tokens=NEVER), 5_000, True, Declined("block_deferred", "")),
        (replace(ALL, repeat_min_tokens=NEVER), 5_000, False, Declined("", "taken once, at start")),
    ],
)
def test_a_read_takes_what_its_fresh_tokens_are_enough_for(policy, fresh_tokens, is_out, declined):
    """And the room never while the block's segments are away (`lending.md` 3.1)."""
    assert policy.decline(fresh_tokens, is_out=is_out, moves_block=policy.lends_block) == declined


def test_a_block_behind_the_last_whole_segment_is_at_home():
    """What decides is where the segments end, and not the switch."""
    assert ALL.decline(300, is_out=False, moves_block=False) == Declined("", "")
