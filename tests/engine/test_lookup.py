"""Drafts looked up in the conversation: a function of token ids alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.world.looked_up import expected_drafts
from strata.engine.lookup import LOOK_BACK_TOKENS, MOST_MATCH_TOKENS, MOST_PLACES, look_up

IDS = st.lists(st.integers(0, 3), max_size=40)


@pytest.mark.parametrize(
    ("text", "most", "drafts"),
    [
        ("", 3, ""),
        ("a", 3, ""),
        ("ab", 3, ""),
        ("aab", 3, ""),
        ("ba.a", 3, ""),  # one equal token is too few
        ("abcde.bc", 3, "de."),
        ("abcde.bc", 7, "de.bcde"),  # and on in what was just said
        ("abx...aby.ab", 2, "y."),  # the latest of equally long ones
        ("zabx.aby.zab", 2, "x."),  # the longest comes first
        ("aaaa", 3, "aaa"),
        ("abab", 5, "ababa"),
        ("abcde.bc", 0, ""),
    ],
)
def test_what_followed_the_last_tokens_is_drafted(text, most, drafts):
    assert look_up([ord(letter) for letter in text], most=most) == tuple(ord(letter) for letter in drafts)


@given(ids=IDS, most=st.integers(0, 7))
def test_the_rule_is_the_one_that_the_twin_has_from_ids_alone(ids, most):
    drafts = look_up(ids, most=most)
    assert drafts == expected_drafts(ids, most=most) == look_up(ids, most=7)[:most]
    assert len(drafts) in (0, most)


def test_a_long_conversation_is_looked_through_no_further_than_a_bound():
    tail = [1, 2, 3]
    for gap, found in ((LOOK_BACK_TOKENS - 6, True), (LOOK_BACK_TOKENS - 4, False)):
        ids = [1, 2, 3, *range(10, 10 + gap), *tail]
        assert (look_up(ids, most=1) == (10,)) is found


def test_a_run_longer_than_is_counted_is_no_better_than_one_as_long():
    run = list(range(20))
    assert look_up([*run, 50, *run[-MOST_MATCH_TOKENS:], 60, *run], most=1) == (60,)


@pytest.mark.parametrize(("num_between", "found"), [(MOST_PLACES - 1, True), (MOST_PLACES, False)])
def test_a_token_that_stands_everywhere_is_looked_at_in_so_many_places(num_between: int, found: bool):
    between = [token for other in range(num_between) for token in (100 + other, 2)]
    assert (look_up([1, 2, 3, *between, 1, 2], most=1) == (3,)) is found
