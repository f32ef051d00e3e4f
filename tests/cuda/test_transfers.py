"""Merging changes how many copies are asked for, and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.core.commands import MAX_COPY_GROUP, Access, CopyPair
from strata.core.extent import Extent, HostExtent, HostSpace
from strata.cuda.transfers import LinkCopy, merge_pairs

UNIT = 256


def pair(host: int, arena: int, units: int = 1, *, space: HostSpace = HostSpace.PACK, out: bool = False) -> CopyPair:
    there = Access(Extent(arena * UNIT, units * UNIT), "owner")
    here = HostExtent(space, host * UNIT, units * UNIT)
    return CopyPair(there, here) if out else CopyPair(here, there)


def test_sixteen_neighbours_in_any_order_become_one_copy() -> None:
    order = [5, 0, 15, 3, 1, 2, 4, 14, 6, 13, 7, 12, 8, 11, 9, 10]
    merged = merge_pairs([pair(100 + index, 40 + index) for index in order])
    assert merged == [LinkCopy(HostExtent(HostSpace.PACK, 100 * UNIT, 16 * UNIT), Extent(40 * UNIT, 16 * UNIT), True)]


def test_neighbours_on_one_side_only_stay_apart() -> None:
    assert len(merge_pairs([pair(0, 0), pair(1, 2)])) == 2
    assert len(merge_pairs([pair(0, 0), pair(2, 1)])) == 2
    assert len(merge_pairs([pair(1, 0), pair(0, 1)])) == 2


def test_directions_and_host_spaces_stay_apart() -> None:
    assert len(merge_pairs([pair(0, 0, space=HostSpace.STAGING), pair(1, 1, space=HostSpace.STAGING, out=True)])) == 2
    assert len(merge_pairs([pair(0, 0), pair(1, 1, space=HostSpace.STAGING)])) == 2


def test_empty_pairs_are_left_out() -> None:
    assert merge_pairs([pair(0, 0, 0), pair(3, 3, 0, out=True, space=HostSpace.STAGING)]) == []


@st.composite
def groups(draw: st.DrawFn) -> list[CopyPair]:
    """Pairs that overlap in neither space, in either direction: places drawn without repetition."""
    count = draw(st.integers(1, MAX_COPY_GROUP))
    hosts = draw(st.lists(st.integers(0, 24), min_size=count, max_size=count, unique=True))
    arenas = draw(st.lists(st.integers(0, 24), min_size=count, max_size=count, unique=True))
    if draw(st.booleans()):
        hosts.sort(), arenas.sort()
    ways = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    return [
        pair(host, arena, space=HostSpace.STAGING if out else HostSpace.PACK, out=out)
        for host, arena, out in zip(hosts, arenas, ways, strict=True)
    ]


def moved(copies: list[LinkCopy]) -> set[tuple[HostSpace, int, int, bool]]:
    """Each byte that moves: host space and offset, arena offset, direction. By units, since sizes are units."""
    return {
        (copy.host.space, copy.host.offset_bytes + at, copy.arena.offset_bytes + at, copy.is_to_device)
        for copy in copies
        for at in range(0, copy.arena.size_bytes, UNIT)
    }


@pytest.mark.slow
@given(groups())
def test_the_same_bytes_move_and_no_neighbours_are_left(pairs: list[CopyPair]) -> None:
    merged = merge_pairs(pairs)
    alone = [copy for each in pairs for copy in merge_pairs([each])]
    assert moved(merged) == moved(alone)
    assert sum(copy.host.size_bytes for copy in merged) == sum(copy.arena.size_bytes for copy in alone)
    for left in merged:
        for right in merged:
            same = left.is_to_device == right.is_to_device and left.host.space == right.host.space
            touches = (left.host.end_bytes, left.arena.end_bytes) == (right.host.offset_bytes, right.arena.offset_bytes)
            assert not (same and touches)
