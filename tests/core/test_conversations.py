"""What a request takes over, and who is parked or goes for it: against rules said as plainly as possible."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.core.extent import HostExtent, HostSpace
from strata.core.inventory import StateKind
from strata.core.serving.checkpoints import NO_CHECKPOINTS, Checkpoint, Checkpoints
from strata.core.serving.conversations import (
    MIN_PARKED_TOKENS,
    Parked,
    ParkedConversations,
    ParkedCounts,
    Takeover,
    plan_takeover,
)
from strata.core.serving.prefix import PLAIN, Session

TOKEN_BYTES = 10


def ids(name: int, num_tokens: int, *, shared: int = 0) -> tuple[int, ...]:
    """Conversation `name`; it begins with the first `shared` ids of conversation 0."""
    return tuple(i if i < shared else 1000 * name + i for i in range(num_tokens))


def at(start: int, end: int) -> HostExtent:
    return HostExtent(HostSpace.PARKED, start * TOKEN_BYTES, (end - start) * TOKEN_BYTES)


def space(tokens: int, *listed: Parked) -> ParkedConversations:
    return ParkedConversations(tokens * TOKEN_BYTES, listed)


def plan(
    session, parked, prompt, *, checkpoints=NO_CHECKPOINTS, kinds=PLAIN, is_reread=False
) -> tuple[ParkedConversations, Takeover]:
    return plan_takeover(
        session if isinstance(session, Session) else Session(session),
        parked,
        prompt,
        checkpoints,
        kinds=kinds,
        size_of=lambda n: n * TOKEN_BYTES,
        is_reread=is_reread,
    )


def test_the_first_request_takes_over_nothing():
    assert plan((), space(500), ids(1, 10)) == (space(500), Takeover(0, 0))


def test_a_session_that_goes_on_is_not_parked():
    after, takeover = plan(ids(1, 100), space(500), ids(1, 130))
    assert (after, takeover) == (space(500), Takeover(100, 100))


@pytest.mark.parametrize(("beyond", "is_parked"), [(MIN_PARKED_TOKENS - 1, False), (MIN_PARKED_TOKENS, True)])
@pytest.mark.parametrize("shared", [0, 40])
def test_a_session_is_parked_for_what_it_has_beyond_the_shared_prefix(beyond: int, is_parked: bool, shared: int):
    session = ids(0, shared + beyond)
    after, takeover = plan(session, space(500), ids(2, 90, shared=shared))
    expected = Parked(Session(session), at(0, shared + beyond)) if is_parked else None
    assert takeover == Takeover(shared, shared, park=expected)
    assert after == space(500)  # it is listed once the copy is complete, by `after_parking`


def test_without_space_nothing_is_parked_and_nothing_is_counted():
    assert plan(ids(1, 400), space(0), ids(2, 10)) == (space(0), Takeover(0, 0))


def test_the_longest_prefix_wins_and_the_live_session_where_two_are_equal():
    one, two = Parked(Session(ids(0, 100)), at(0, 100)), Parked(Session(ids(3, 90, shared=50)), at(100, 190))
    _, takeover = plan(ids(2, 70, shared=20), space(500, one, two), ids(0, 200))
    assert takeover == Takeover(20, 100, restore=one)  # 50 tokens of the live one would be lost: not enough
    _, takeover = plan(ids(2, 70, shared=50), space(500, two), ids(0, 200))
    assert takeover == Takeover(50, 50)
    _, takeover = plan((), space(500, one, two), ids(5, 60, shared=50))
    assert takeover.restore is two  # used last


def test_at_most_all_but_the_last_token_come_back():
    one = Parked(Session(ids(0, 100)), at(0, 100))
    assert plan((), space(500, one), ids(0, 100))[1] == Takeover(0, 99, restore=one)
    assert plan((), space(500, one), ids(0, 1))[1] == Takeover(0, 0)


def test_a_reread_finds_a_parked_one_and_reads_from_0_but_goes_on_with_the_live_one():
    one = Parked(Session(ids(0, 100)), at(0, 100))
    after, takeover = plan(ids(1, 80), space(500, one), ids(0, 110), is_reread=True)
    assert takeover == Takeover(0, 0, park=Parked(Session(ids(1, 80)), at(100, 180)))
    assert after.counts == ParkedCounts(num_hits=1)
    assert plan(ids(0, 105), space(500, one), ids(0, 110), is_reread=True)[1] == Takeover(105, 105)


def test_a_copy_that_holds_the_session_whole_is_enough():
    one = Parked(Session(ids(0, 100)), at(0, 100))
    assert plan(ids(0, 90), space(500, one), ids(1, 10)) == (space(500, one), Takeover(0, 0))
    assert plan(ids(0, 101), space(500, one), ids(1, 10))[1].park is not None


def test_an_older_copy_of_the_same_conversation_goes_first():
    """Its place is the new one's, where that is long enough; nobody else has to go."""
    old, other = Parked(Session(ids(0, 100)), at(0, 100)), Parked(Session(ids(7, 100)), at(130, 230))
    after, takeover = plan(ids(0, 120), space(230, old, other), ids(1, 10))
    assert after == space(230, other)
    assert takeover.park == Parked(Session(ids(0, 120)), at(0, 120))


def test_a_copy_that_has_little_of_its_own_goes_but_not_if_it_is_needed():
    old = Parked(Session((*ids(0, 100), *ids(5, 40))), at(0, 140))
    after, takeover = plan(ids(0, 200), space(500, old), ids(1, 10))
    assert (after.listed, takeover.park) == ((), Parked(Session(ids(0, 200)), at(0, 200)))
    after, takeover = plan(ids(0, 200), space(500, old), (*ids(0, 100), *ids(5, 30)))
    assert takeover == Takeover(100, 129, Parked(Session(ids(0, 200)), at(140, 340)), old)
    assert after.listed == (old,)


def test_least_recently_used_go_until_there_is_a_gap_and_never_the_one_that_is_needed():
    one, two, three = (Parked(Session(ids(n, 100)), at(100 * n, 100 * n + 100)) for n in range(3))
    after, takeover = plan(ids(9, 150), space(300, one, two, three), ids(0, 120))
    assert takeover == Takeover(0, 100, park=Parked(Session(ids(9, 150)), at(100, 250)), restore=one)
    assert (after.listed, after.counts.num_evicted) == ((one,), 2)
    after, takeover = plan(ids(9, 100), space(300, one, two, three), ids(0, 120))
    assert takeover.park == Parked(Session(ids(9, 100)), at(100, 200))
    assert (after.listed, after.counts.num_evicted) == ((one, three), 1)


def test_who_does_not_fit_beside_the_one_that_is_needed_is_not_parked_and_nobody_goes():
    one, two = Parked(Session(ids(0, 100)), at(100, 200)), Parked(Session(ids(1, 80)), at(200, 280))
    after, takeover = plan(ids(9, 101), space(300, two, one), ids(0, 120))
    assert takeover == Takeover(0, 100, restore=one)
    assert (after.listed, after.counts) == ((two, one), ParkedCounts(num_hits=1, num_lost=1))
    assert plan(ids(9, 301), space(300, two), ids(5, 9))[0].counts == ParkedCounts(num_lost=1)


def test_places_that_meet_or_end_beyond_the_space_are_a_fault():
    for listed in ((at(0, 10), at(9, 12)), (at(95, 101),)):
        with pytest.raises(AssertionError):
            space(100, *(Parked(Session(ids(n, 10)), place) for n, place in enumerate(listed)))


HYBRID = frozenset({StateKind.KV, StateKind.RECURRENT})
AT_60 = Checkpoint(60, 1)
SAVED = Checkpoints(3, (Checkpoint(40, 0), AT_60))


@pytest.mark.parametrize(
    ("session", "prompt", "expected"),
    [
        (ids(0, 100), ids(1, 80, shared=70), Takeover(60, 60, restore=AT_60)),
        (ids(0, 100), ids(0, 130), Takeover(100, 100)),  # the live one has more
        (ids(0, 60), ids(0, 130), Takeover(60, 60)),  # and as much
        (ids(0, 100), ids(1, 80, shared=30), Takeover(0, 0, Parked(Session(ids(0, 100)), at(0, 100)))),
        (Session(ids(0, 100), is_torn=True), ids(0, 130), Takeover(60, 60, restore=AT_60)),
        (ids(0, 124), ids(1, 80, shared=70), Takeover(60, 60, Parked(Session(ids(0, 124)), at(0, 124)), AT_60)),
        (Session(ids(0, 124), is_torn=True), ids(1, 80, shared=70), Takeover(60, 60, restore=AT_60)),
    ],
    ids=["part", "whole", "tie", "behind no checkpoint", "torn", "64 would be lost", "nothing torn is parked"],
)
def test_a_hybrid_goes_on_from_the_session_or_a_checkpoint_in_it(session, prompt, expected: Takeover):
    assert plan(session, space(500), prompt, checkpoints=SAVED, kinds=HYBRID)[1] == expected
    reread = plan(session, space(500), prompt, checkpoints=SAVED, kinds=HYBRID, is_reread=True)[1]
    assert reread == (Takeover(0, 0, expected.park) if expected.restore else expected)


def test_a_parked_conversation_wins_only_over_a_checkpoint_with_less():
    less, more = (Parked(Session(ids(1, size, shared=70)), at(0, size)) for size in (60, 65))
    prompt = ids(1, 90, shared=70)
    assert plan(ids(0, 100), space(100, less), prompt, checkpoints=SAVED, kinds=HYBRID)[1].restore == AT_60
    after, takeover = plan(ids(0, 100), space(100, more), prompt, checkpoints=SAVED, kinds=HYBRID)
    assert (takeover.kept, takeover.read_from, takeover.restore) == (0, 65, more)
    assert (after.counts.num_hits, after.counts.num_lost) == (1, 1)  # the session is as large as all of the space


CONVERSATIONS = st.tuples(st.integers(0, 5), st.integers(1, 150), st.sampled_from((0, 0, 30, 70)))


@given(st.lists(CONVERSATIONS, max_size=40), st.integers(0, 400), st.booleans())
def test_any_sequence_of_requests_keeps_the_rules(sequence, space_tokens: int, is_reread: bool):
    """Every step against the rules said over lists of ids; only where in the space a copy lies is left to the core."""
    parked, session = space(space_tokens), ()
    for name, num_tokens, shared in sequence:
        prompt = ids(name, num_tokens, shared=shared)
        before = [each.session.ids for each in parked.listed]
        after, takeover = plan(session, parked, prompt, is_reread=is_reread)
        left = [each.session.ids for each in after.listed]

        lengths = [common(held, prompt[:-1]) for held in (session, *before)]
        is_hit = max(lengths) > lengths[0]
        assert takeover.read_from == (0 if is_hit and is_reread else max(lengths))
        assert (takeover.restore is not None) == (is_hit and not is_reread)
        if takeover.restore is not None:
            assert takeover.restore in after.listed and takeover.kept == lengths[0]

        is_worth_it = len(session) - common(session, prompt) >= 64 and not any(is_prefix(session, b) for b in before)
        if takeover.park is None:
            assert left == before
            assert not is_worth_it or len(session) > space_tokens or takeover.restore or is_hit
        else:
            assert is_worth_it and takeover.park.session.ids == session
            needed = [held for held in before if is_hit and held == longest_used_last(before, prompt)]
            others = [held for held in before if held in needed or len(held) - common(held, session) >= 64]
            order = [held for held in others if held not in needed]
            gone = [held for held in others if held not in left]
            assert [held for held in others if held in left] == left
            assert gone == order[: len(gone)]  # the least recently used of those that may go
            assert not gone or not has_gap(parked, (*left, gone[-1]), len(session))  # and no more of them than it takes
            parked = after.after_parking(takeover.park)  # no two places meet
        if takeover.park is None:
            parked = after
        if takeover.restore is not None:
            parked = parked.without(takeover.restore).after_restoring(takeover.restore)
        session = prompt


def common(left: tuple[int, ...], right: tuple[int, ...]) -> int:
    pairs = zip(left, right, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))


def is_prefix(held: tuple[int, ...], whole: tuple[int, ...]) -> bool:
    return whole[: len(held)] == held


def has_gap(parked: ParkedConversations, kept: tuple[tuple[int, ...], ...], num_tokens: int) -> bool:
    taken = [
        byte // TOKEN_BYTES
        for each in parked.listed
        if each.session.ids in kept
        for byte in range(each.place.offset_bytes, each.place.end_bytes, TOKEN_BYTES)
    ]
    free = "".join("x" if token in taken else "." for token in range(parked.size_bytes // TOKEN_BYTES))
    return "." * num_tokens in free


def longest_used_last(before: list[tuple[int, ...]], prompt: tuple[int, ...]) -> tuple[int, ...]:
    return max(reversed(before), key=lambda held: common(held, prompt[:-1]))
