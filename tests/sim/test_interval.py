"""The interval map against the plainest model there is: one list element a byte."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from sim.interval import IntervalMap, Spans

SIZE = 29
spans = st.tuples(st.integers(0, SIZE), st.integers(0, SIZE)).map(lambda pair: (min(pair), max(pair)))


@given(st.lists(st.tuples(spans, st.integers(0, 3), st.booleans()), max_size=40))
def test_every_byte_has_the_value_that_it_got_last(steps: list) -> None:
    found, naive = IntervalMap(SIZE, 0), [0] * SIZE
    for (start, end), value, is_update in steps:
        if is_update:
            found.update(start, end, lambda old, value=value: (old + value) % 4)
            naive[start:end] = [(old + value) % 4 for old in naive[start:end]]
        else:
            found.assign(start, end, value)
            naive[start:end] = [value] * (end - start)
        assert [v for a, b, v in found.runs(0, SIZE) for _ in range(b - a)] == naive
        assert [v for a, b, v in found.runs(start, end) for _ in range(b - a)] == naive[start:end]
        assert found.values(start, end) == [v for _, _, v in found.runs(start, end)]
        assert len(found) == 1 + sum(a != b for a, b in pairwise(naive)), "runs did not melt"


@given(st.lists(spans, max_size=6), spans)
def test_spans_contain_exactly_what_every_byte_of_which_is_in_one(parts: list, asked: tuple[int, int]) -> None:
    covered = {byte for start, end in parts for byte in range(start, end)}
    assert Spans(parts).contains(*asked) == (set(range(*asked)) <= covered)
