"""The card's map: every byte once, neighbours of one kind together."""

from hypothesis import given
from hypothesis import strategies as st

from strata.commands.card_map import MapLine, OwnedBytes, merge_rows, render_map

OWNERS = st.sampled_from(["", "kv 0", "kv 1", "weights", "weights blk.0.attn_q.weight", "cache 3 17", "7"])


@st.composite
def maps(draw: st.DrawFn) -> list[OwnedBytes]:
    rows, offset_bytes = [], 0
    for owner, gap, size_bytes in draw(st.lists(st.tuples(OWNERS, st.integers(0, 2), st.integers(1, 9)), max_size=12)):
        offset_bytes += gap
        rows.append(OwnedBytes(owner, offset_bytes, size_bytes))
        offset_bytes += size_bytes
    return draw(st.permutations(rows))


@given(maps())
def test_every_byte_is_in_exactly_one_line(rows: list[OwnedBytes]) -> None:
    def cells(lines: list[OwnedBytes] | list[MapLine]) -> list[int]:
        return sorted(byte for line in lines for byte in range(line.offset_bytes, line.offset_bytes + line.size_bytes))

    lines = list(merge_rows(rows))
    assert cells(lines) == cells(rows)
    assert sum(line.num_extents for line in lines) == len(rows)


def test_neighbours_of_one_kind_are_one_line() -> None:
    rows = [OwnedBytes("kv 1", 4, 4), OwnedBytes("kv 0", 0, 4), OwnedBytes("head", 8, 2), OwnedBytes("", 10, 6)]
    assert merge_rows(rows) == (MapLine("kv", 0, 8, 2), MapLine("head", 8, 2, 1), MapLine("free", 10, 6, 1))


def test_a_gap_separates() -> None:
    assert len(merge_rows([OwnedBytes("kv 0", 0, 4), OwnedBytes("kv 1", 5, 4)])) == 2


def test_a_line_says_where_how_much_and_whose() -> None:
    lines = render_map([OwnedBytes("head", 0x100, 3 * 2**20), OwnedBytes("kv 0", 0x300100, 2**20)])
    assert lines[0].split() == ["0x00000100", "3.0", "MiB", "head", "#" * 24]
    assert lines[1].split() == ["0x00300100", "1.0", "MiB", "kv", "#" * 8]


def test_a_share_of_nearly_nothing_is_a_dot_and_nothing_is_left_out() -> None:
    lines = render_map([OwnedBytes("cache", 0, 2**28), OwnedBytes("table", 2**28, 2048), OwnedBytes("", 2**29, 0)])
    assert [line.split()[-1] for line in lines] == ["#" * 32, "."]
