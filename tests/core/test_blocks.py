"""Chunks, and the blocks that recurrent layers are computed in: of token ids alone, but for where a read began."""

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strata.core.serving.cuts import BLOCK_TOKENS, next_chunk

CUTS = st.lists(st.integers(1, 1500), max_size=12, unique=True).map(sorted)


def boundaries(cuts: list[int], num_tokens: int) -> set[int]:
    """Where blocks begin, and the end: every cut, and every 64 tokens behind the last one."""
    found, last = {0, num_tokens}, 0
    for position in range(num_tokens):
        last = position if position in cuts else last
        if (position - last) % 64 == 0:
            found.add(position)
    return found


def read(
    cuts: list[int], *, start: int, stops: list[int], most_tokens: int
) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """Chunks of a whole read: start, end and runs of each. `stops`: where it must stop, the last of them its end."""
    while start < stops[-1]:
        stop = next(each for each in stops if each > start)
        end, runs = next_chunk(cuts, start=start, stop=stop, most_tokens=most_tokens)
        yield start, end, runs
        start = end


@given(
    cuts=CUTS,
    num_tokens=st.integers(1, 1500),
    most_tokens=st.integers(1, 6).map(lambda n: 256 * n),
    stops=st.sets(st.integers(0, 11), max_size=4),
    began=st.integers(0, 1499),
)
@example(cuts=[100], num_tokens=700, most_tokens=256, stops=set(), began=0)  # the second block of the cut crosses 256
@example(cuts=[100], num_tokens=700, most_tokens=256, stops=set(), began=130)  # inside a block
def test_blocks_begin_at_cuts_and_every_64_tokens_behind_whatever_the_chunk(
    cuts, num_tokens, most_tokens, stops, began
):
    """Also where the read stops at some cuts to leave a state, and, from its first whole block on, wherever it is."""
    began %= num_tokens
    ends = sorted({cuts[i] for i in stops if i < len(cuts) and began < cuts[i] < num_tokens} | {num_tokens})
    seen = {began, num_tokens}
    chunks = list(read(cuts, start=began, stops=ends, most_tokens=most_tokens))
    for start, end, runs in chunks:
        assert start < end <= start + most_tokens and runs[0] == 0
        for first, last in pairwise((*runs, end - start)):
            assert first < last
            seen |= {start + row for row in range(first, last, BLOCK_TOKENS)}
    assert seen == {began} | {position for position in boundaries(cuts, num_tokens) if position >= began}
    assert sum(end - start for start, end, _ in chunks) == num_tokens - began


@given(cuts=CUTS, start=st.integers(0, 200), more=st.integers(1, 300), most_tokens=st.integers(1, 63))
def test_a_chunk_in_which_no_block_ends_goes_as_far_as_it_may(cuts, start, more, most_tokens):
    end, runs = next_chunk(cuts, start=start, stop=start + more, most_tokens=most_tokens)
    assert start < end <= min(start + most_tokens, start + more)
    assert all(0 <= row < end - start for row in runs)


@pytest.mark.parametrize("most_tokens", [1, 256, 1024])
def test_a_model_without_recurrent_layers_has_chunks_of_any_end(most_tokens):
    assert next_chunk(None, start=100, stop=900, most_tokens=most_tokens) == (min(100 + most_tokens, 900), (0,))
