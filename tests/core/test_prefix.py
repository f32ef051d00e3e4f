"""The live session: what a prompt may take over from the one before."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.core.inventory import StateKind
from strata.core.serving.prefix import NO_SESSION, PLAIN, Session, can_rewind

ids = st.lists(st.integers(0, 2), max_size=12).map(tuple)


@given(ids, ids.filter(len))
def test_read_from_is_the_longest_common_prefix_but_never_the_whole_prompt(held, prompt):
    read_from = Session(held).read_from(prompt)
    assert read_from <= len(prompt) - 1
    assert held[:read_from] == prompt[:read_from]
    longer = read_from + 1
    assert longer > len(prompt) - 1 or longer > len(held) or held[:longer] != prompt[:longer]


@pytest.mark.parametrize(
    ("held", "prompt", "read_from"),
    [
        ((), (1,), 0),
        ((1,), (1,), 0),
        ((1, 2, 3), (1, 2, 3), 2),
        ((1, 2, 3), (1, 2, 3, 4), 3),
        ((1, 2, 3), (1, 2, 4, 4), 2),
        ((1, 2, 3), (2, 2, 3), 0),
    ],
)
def test_tokens_are_compared_by_id(held, prompt, read_from):
    assert Session(held).read_from(prompt) == read_from


def test_a_session_is_cut_where_it_is_overwritten_and_grows_where_it_ends():
    assert NO_SESSION.grown(1, 2).grown(3).kept(2) == Session((1, 2))
    with pytest.raises(AssertionError):
        Session((1, 2)).kept(3)


HYBRID = frozenset({StateKind.KV, StateKind.RECURRENT})


@given(ids, ids.filter(len))
def test_recurrent_state_is_extended_or_begun_anew(held, prompt):
    read_from = Session(held).read_from(prompt, HYBRID)
    is_extension = len(held) < len(prompt) and prompt[: len(held)] == held
    assert read_from == (len(held) if is_extension else 0)


@given(ids, ids.filter(len))
def test_a_drafter_reads_the_last_shared_token_again_where_state_can_be_rewound(held, prompt):
    """Its cell there was made with the token that followed; where state cannot go back, its hidden row is kept."""
    plain, drafting = (Session(held).read_from(prompt, kinds) for kinds in (PLAIN, PLAIN | {StateKind.PAIRS}))
    assert drafting == max(0, plain - 1)
    assert Session(held).read_from(prompt, HYBRID | {StateKind.PAIRS}) == Session(held).read_from(prompt, HYBRID)


def test_only_cells_can_be_forgotten_one_by_one():
    assert can_rewind(PLAIN | {StateKind.PAIRS})
    assert can_rewind(frozenset({StateKind.KV}))
    assert not can_rewind(HYBRID)
    assert not can_rewind(frozenset({StateKind.RECURRENT}))


def test_a_chunk_given_up_leaves_cells_but_no_recurrent_state():
    session = Session((1, 2))
    assert session.after_giving_up(frozenset({StateKind.KV})) == session
    torn = session.after_giving_up(HYBRID)
    assert (torn.ids, torn.usable((1, 2, 3), HYBRID), torn.read_from((1, 2, 3), HYBRID)) == ((1, 2), 0, 0)
    assert not torn.holds((1, 2), HYBRID)
    assert torn.kept(1) == Session((1,))  # behind a state that came back
