"""The interval map against the plainest model there is: one list element a byte."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from sim.interval import IntervalMap, Spans

SIZE = 29
spans = st.tuples(st.integers(0, SIZE), st.integers(0, SIZE)).map(lambda pair: (min(pair), max(pair)))


@given(st.lists(st.tuples(spans, st.integers(0, 3)), max_size=40), spans)
def test_every_byte_has_the_value_that_it_got_last(steps: list, asked: tuple[int, int]) -> None:
    found, naive = IntervalMap(SIZE, 0), [0] * SIZE
    for (start, end), value in steps:
        found.assign(start, end, value)
        naive[start:end] = [value] * (end - start)
        starts = [0, *(at for at, (a, b) in enumerate(pairwise(naive), 1) if a != b)]
        assert list(found.whole_runs(0, SIZE)) == [(at, naive[at]) for at in starts]
        assert len(found) == len(starts), "runs did not melt"
    met = {max(at for at in starts_of(found) if at <= byte) for byte in range(*asked)}
    ends = [*starts_of(found)[1:], SIZE]
    assert [found.end_of(byte) for byte in range(SIZE)] == [min(e for e in ends if e > byte) for byte in range(SIZE)]
    assert list(found.whole_runs(*asked)) == [(at, naive[at]) for at in sorted(met)]


def starts_of(found: IntervalMap[int]) -> list[int]:
    return [start for start, _ in found.whole_runs(0, SIZE)]


@given(st.lists(spans, max_size=6), spans)
def test_spans_contain_exactly_what_every_byte_of_which_is_in_one(parts: list, asked: tuple[int, int]) -> None:
    covered = {byte for start, end in parts for byte in range(start, end)}
    assert Spans(parts).contains(*asked) == (set(range(*asked)) <= covered)
