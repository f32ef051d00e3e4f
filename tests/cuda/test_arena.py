"""Segments under addresses: what is refused, and that a refusal changes nothing."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.core.errors import ConfigError, DeviceError
from strata.core.extent import Extent
from strata.cuda.arena import Arena
from strata.cuda.card import Card
from strata.cuda.driver import Driver
from strata.cuda.errors import CudaFailure
from tests.cuda.builders import SEGMENT_BYTES, fake_driver
from tests.cuda.fake_driver import CUresult, FakeDriver

NUM_PLACES = 4


def place(index: int) -> Extent:
    return Extent(index * SEGMENT_BYTES, SEGMENT_BYTES)


@contextmanager
def arena_on(fake: FakeDriver) -> Iterator[Arena]:
    card = Card(Driver(fake), ordinal=0)
    arena = Arena(card, arena_bytes=NUM_PLACES * SEGMENT_BYTES, segment_bytes=SEGMENT_BYTES)
    yield arena
    arena.close()
    card.close()
    assert fake.leftovers() == {}


@pytest.fixture
def fake() -> Iterator[FakeDriver]:
    with fake_driver() as made:
        yield made


@pytest.fixture
def arena(fake: FakeDriver) -> Iterator[Arena]:
    with arena_on(fake) as made:
        yield made


def whole(arena: Arena) -> tuple[int | None, ...]:
    return arena.backing(Extent(0, arena.size_bytes))


def test_serving_asks_the_card_for_no_memory(fake: FakeDriver, arena: Arena) -> None:
    created = len(fake.named("cuMemCreate"))
    for index in range(NUM_PLACES):
        arena.map(index, place(NUM_PLACES - 1 - index))
    for index in range(NUM_PLACES):
        arena.unmap(place(index))
    assert created == len(fake.named("cuMemCreate")) == NUM_PLACES and not fake.named("cuMemRelease")


@pytest.mark.slow
@given(moves=st.lists(st.tuples(st.booleans(), st.integers(-1, NUM_PLACES), st.integers(0, NUM_PLACES)), max_size=30))
def test_what_lies_where_is_what_a_table_says(moves: list[tuple[bool, int, int]]) -> None:
    """Against a naive table: a legal move is made, any other is refused, and the mapping is the table's."""
    table: dict[int, int] = {}
    with fake_driver() as fake, arena_on(fake) as arena:
        for is_map, segment, at in moves:
            if is_map:
                is_legal = 0 <= segment < NUM_PLACES and at < NUM_PLACES
                is_legal = is_legal and at not in table and segment not in table.values()
            else:
                is_legal = at in table
            try:
                arena.map(segment, place(at)) if is_map else arena.unmap(place(at))
            except DeviceError:
                assert not is_legal
            else:
                assert is_legal
                table = {**table, at: segment} if is_map else {a: s for a, s in table.items() if a != at}
            assert whole(arena) == tuple(table.get(at) for at in range(NUM_PLACES))
            assert arena.mapped_bytes == len(table) * SEGMENT_BYTES


@pytest.mark.parametrize("name", ["cuMemMap", "cuMemSetAccess"])
def test_a_map_that_fails_leaves_the_place_free_and_the_segment_at_hand(
    fake: FakeDriver, arena: Arena, name: str
) -> None:
    arena.map(0, place(0))
    fake.refuse(name, code=CUresult.CUDA_ERROR_OUT_OF_MEMORY)
    with pytest.raises(CudaFailure, match=f"{name} failed"):
        arena.map(1, place(1))
    assert whole(arena) == (0, None, None, None)
    assert fake.leftovers()["mapping"] == 1
    arena.map(1, place(1))
    assert whole(arena) == (0, 1, None, None)


def test_an_unmap_that_fails_leaves_the_segment_mapped(fake: FakeDriver, arena: Arena) -> None:
    arena.map(2, place(1))
    fake.refuse("cuMemUnmap")
    with pytest.raises(CudaFailure):
        arena.unmap(place(1))
    assert whole(arena) == (None, 2, None, None) and arena.num_unmaps == 0
    arena.unmap(place(1))
    assert arena.mapped_bytes == 0 and arena.num_unmaps == 1


@pytest.mark.parametrize("extent", [Extent(0, 1), Extent(1, SEGMENT_BYTES), Extent(0, 2 * SEGMENT_BYTES)])
def test_only_whole_segments_on_the_grid_are_mapped(arena: Arena, extent: Extent) -> None:
    for change in (lambda: arena.map(0, extent), lambda: arena.unmap(extent)):
        with pytest.raises(DeviceError, match="not one segment on the grid"):
            change()


@pytest.mark.parametrize(
    ("extent", "is_mapped"),
    [
        (Extent(0, SEGMENT_BYTES), True),
        (Extent(SEGMENT_BYTES - 1, 2), True),
        (Extent(SEGMENT_BYTES, SEGMENT_BYTES + 1), False),
        (Extent(3 * SEGMENT_BYTES, 0), True),
        (Extent(3 * SEGMENT_BYTES, SEGMENT_BYTES), True),
        (Extent(3 * SEGMENT_BYTES, SEGMENT_BYTES + 1), False),
    ],
)
def test_bytes_are_reachable_exactly_where_every_segment_is_there(
    arena: Arena, extent: Extent, is_mapped: bool
) -> None:
    for index in (0, 1, 3):
        arena.map(index, place(index))
    if is_mapped:
        arena.check_mapped(extent)
    else:
        with pytest.raises(DeviceError, match=r"arena \["):
            arena.check_mapped(extent)


@pytest.mark.parametrize("nth", range(1, NUM_PLACES + 1))
def test_a_card_without_room_says_what_is_missing_and_keeps_nothing(fake: FakeDriver, nth: int) -> None:
    card = Card(Driver(fake), ordinal=0)
    fake.refuse("cuMemCreate", nth, CUresult.CUDA_ERROR_OUT_OF_MEMORY)
    missing = (NUM_PLACES - nth + 1) * SEGMENT_BYTES
    with pytest.raises(ConfigError, match=rf"arena refused.*{missing:,} B are missing: lower --vram"):
        Arena(card, arena_bytes=NUM_PLACES * SEGMENT_BYTES, segment_bytes=SEGMENT_BYTES)
    assert fake.leftovers() == {"context": 1}


@pytest.mark.parametrize(
    ("arena_bytes", "segment_bytes"),
    [(0, SEGMENT_BYTES), (SEGMENT_BYTES + 4096, SEGMENT_BYTES), (8192, 4096), (0, 0)],
)
def test_a_grid_that_does_not_fit_is_refused_before_memory_is_taken(
    fake: FakeDriver, arena_bytes: int, segment_bytes: int
) -> None:
    card = Card(Driver(fake), ordinal=0)
    with pytest.raises(ConfigError, match="arena refused"):
        Arena(card, arena_bytes=arena_bytes, segment_bytes=segment_bytes)
    assert not fake.named("cuMemAddressReserve")


def test_close_gives_back_what_it_can_when_a_call_fails(fake: FakeDriver) -> None:
    card = Card(Driver(fake), ordinal=0)
    arena = Arena(card, arena_bytes=NUM_PLACES * SEGMENT_BYTES, segment_bytes=SEGMENT_BYTES)
    arena.map(0, place(0))
    fake.refuse("cuMemRelease", 2)
    with pytest.raises(CudaFailure, match="cuMemRelease"):
        arena.close()
    assert fake.leftovers() == {"context": 1, "segment": 1}
