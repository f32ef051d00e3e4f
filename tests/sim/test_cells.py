"""Cells against one fact a byte: whatever is cut, changed and melted, every byte keeps what was said of it last."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from sim.cells import Cells

SIZE = 29
spans = st.tuples(st.integers(0, SIZE), st.integers(0, SIZE)).map(lambda pair: (min(pair), max(pair)))


@given(st.lists(st.tuples(spans, st.sampled_from("ab"), st.booleans()), max_size=40), spans)
def test_every_byte_keeps_what_was_said_of_it_last(steps: list, asked: tuple[int, int]) -> None:
    cells, naive = Cells(SIZE), [""] * SIZE
    for (start, end), owner, is_melting in steps:
        found = cells.cut(start, end)
        assert [at for cell in found for at in range(cell.start, cell.end)] == list(range(start, end))
        for cell in found:
            cell.owner = owner
        naive[start:end] = [owner] * (end - start)
        if is_melting:
            cells.melt(start, end)
            assert all(a.owner != b.owner for a, b in pairwise(cells.cut(start, end)))
        assert [cell.owner for a, b, cell in cells.meeting(0, SIZE) for _ in range(a, b)] == naive
    assert [cell.owner for a, b, cell in cells.meeting(*asked) for _ in range(a, b)] == naive[slice(*asked)]


def test_cutting_where_cells_begin_already_cuts_nothing() -> None:
    cells = Cells(SIZE)
    first = cells.cut(3, 11)
    assert (cells.num_cuts, len(cells)) == (2, 3)
    assert cells.cut(3, 11)[0] is first[0] and cells.num_cuts == 2


def test_a_cell_is_only_like_another_of_which_all_the_same_is_known() -> None:
    cells = Cells(SIZE)
    cells.cut(3, 11)[0].generation = 1
    cells.melt(0, SIZE)
    assert len(cells) == 3
    cells.cut(3, 11)[0].generation = 0
    cells.melt(0, SIZE)
    assert len(cells) == 1
