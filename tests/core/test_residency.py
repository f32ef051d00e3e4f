"""Which blobs are exchanged: a pure function of slots, sizes and reads."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.core.extent import Extent
from strata.core.memory.residency import EVERY_WINDOW, MEMORY_ROUNDS, MIN_GAIN, Residency
from strata.core.memory.shapes import Slot
from tests.engine.symbolic_card import small_inventory

NUM_EXPERTS = 4
SIZES = (700, 0, 512)
INVENTORY = small_inventory(blob_bytes=SIZES, num_experts=NUM_EXPERTS)
NUM_PAIRS = len(SIZES) * NUM_EXPERTS


def pair(layer: int, expert: int) -> int:
    return layer * NUM_EXPERTS + expert


def cache(*blobs: tuple[int, int], **heat: int) -> Residency:
    """A slot for each blob, as large as it is; heat by name: `l0e1=5`."""
    at, slots = 0, []
    for layer, expert in blobs:
        slots.append(Slot(layer, expert, Extent(at, SIZES[layer])))
        at += 1024
    values = [0] * NUM_PAIRS
    for name, value in heat.items():
        values[pair(int(name[1]), int(name[3]))] = value
    return Residency(tuple(slots), tuple(values))


def blobs_of(residency: Residency) -> list[tuple[int, int]]:
    return [(slot.layer, slot.expert) for slot in residency.slots]


def test_the_hottest_takes_the_place_of_the_coldest():
    before = cache((0, 0), (0, 1), l0e0=9_000, l0e1=4_000, l0e2=20_000, l0e3=30_000)
    after = before.exchanged(INVENTORY, most=1)
    assert (blobs_of(after), after.moving) == ([(0, 0), (0, 3)], (1,))
    assert [slot.extent for slot in after.slots] == [slot.extent for slot in before.slots]
    both = before.exchanged(INVENTORY, most=2)
    assert (blobs_of(both), both.moving) == ([(0, 2), (0, 3)], (0, 1))


@pytest.mark.parametrize(("resident", "absent", "is_worth_it"), [
    (0, MIN_GAIN, False),
    (0, MIN_GAIN + 1, True),
    (40_000, 50_000 + MIN_GAIN, False),
    (40_000, 50_001 + MIN_GAIN, True),
])  # fmt: skip
def test_a_newcomer_must_be_hotter_by_a_quarter_and_by_the_least_gain(resident: int, absent: int, is_worth_it: bool):
    after = cache((0, 0), l0e0=resident, l0e1=absent).exchanged(INVENTORY, most=4)
    assert bool(after.moving) == is_worth_it


def test_a_blob_takes_the_coldest_slot_that_it_fits():
    before = cache((2, 0), (0, 0), l0e0=20_000, l0e1=60_000, l2e1=50_000)
    after = before.exchanged(INVENTORY, most=2)
    assert blobs_of(after) == [(2, 1), (0, 1)]
    assert cache((2, 0), l0e1=60_000).exchanged(INVENTORY, most=2).moving == ()


def test_a_smaller_blob_may_lie_in_a_larger_slot():
    assert blobs_of(cache((0, 0), l2e1=60_000).exchanged(INVENTORY, most=2)) == [(2, 1)]


def test_a_hot_blob_that_fits_nowhere_stands_in_nobodys_way():
    before = cache((2, 0), (2, 1), l0e1=60_000, l0e2=59_000, l2e2=50_000, l2e3=40_000)
    after = before.exchanged(INVENTORY, most=2)
    assert (blobs_of(after), after.moving) == ([(2, 2), (2, 3)], (0, 1))


def test_a_blob_is_not_read_more_often_than_there_were_windows():
    with pytest.raises(AssertionError):
        cache((0, 0)).after_window((2,) + (0,) * (NUM_PAIRS - 1))


def test_at_a_start_any_gain_will_do():
    before = cache((0, 0), (2, 0), l0e0=10, l0e1=11, l2e0=5, l2e1=5)
    assert blobs_of(before.exchanged(INVENTORY, most=NUM_PAIRS, is_free=True)) == [(0, 1), (2, 0)]
    assert before.exchanged(INVENTORY, most=NUM_PAIRS).moving == ()


def test_heat_is_the_share_of_windows_that_read_a_blob_as_a_mean_that_forgets():
    residency = replace(cache((0, 0)), num_windows=0)
    reads = [0] * NUM_PAIRS
    reads[0], reads[1] = 4, 2
    for _ in range(200):
        for _ in range(3):
            residency = residency.after_window(())
        assert residency.num_windows == 3
        residency = residency.after_window(tuple(reads))
        assert residency.num_windows == 0
    slack = EVERY_WINDOW // 1000
    assert abs(residency.heat[0] - EVERY_WINDOW) < slack and abs(residency.heat[1] - EVERY_WINDOW // 2) < slack
    for _ in range(40 * MEMORY_ROUNDS):
        residency = residency.after_window((0,) * NUM_PAIRS)
    assert residency.heat == (0,) * NUM_PAIRS


def test_what_landed_is_on_its_way_no_more():
    moving = cache((0, 0), l0e1=60_000).exchanged(INVENTORY, most=1)
    landing = moving.landed()
    assert (moving.moving, landing.moving, landing.landing) == ((0,), (), (0,))


HEATS = st.lists(st.integers(0, EVERY_WINDOW), min_size=NUM_PAIRS, max_size=NUM_PAIRS)


@given(
    heat=HEATS,
    held=st.sets(st.tuples(st.sampled_from((0, 2)), st.integers(0, NUM_EXPERTS - 1))),
    most=st.integers(1, NUM_PAIRS),
    is_free=st.booleans(),
)
def test_whatever_the_heat_each_blob_has_one_slot_that_it_fits_and_the_cache_is_warmer(heat, held, most, is_free):
    heat[NUM_EXPERTS : 2 * NUM_EXPERTS] = [0] * NUM_EXPERTS  # of the dense layer
    before = replace(cache(*sorted(held)), heat=tuple(heat))
    after = before.exchanged(INVENTORY, most=most, is_free=is_free)
    blobs = blobs_of(after)
    assert len(set(blobs)) == len(blobs) == len(held)
    assert all(0 < SIZES[slot.layer] <= slot.extent.size_bytes for slot in after.slots)
    changed = [i for i, slot in enumerate(after.slots) if slot != before.slots[i]]
    assert tuple(changed) == after.moving and len(changed) <= most
    warmth = [sum(heat[pair(*blob)] for blob in blobs_of(each)) for each in (before, after)]
    assert warmth[1] > warmth[0] if changed else warmth[1] == warmth[0]


@given(
    heat=HEATS,
    held=st.sets(st.tuples(st.sampled_from((0, 2)), st.integers(0, NUM_EXPERTS - 1))),
    most=st.integers(1, NUM_PAIRS),
)
def test_no_worthy_blob_is_left_out_while_more_may_be_exchanged(heat, held, most):
    heat[NUM_EXPERTS : 2 * NUM_EXPERTS] = [0] * NUM_EXPERTS
    before = replace(cache(*sorted(held)), heat=tuple(heat))
    after = before.exchanged(INVENTORY, most=most)
    moved = {i: pair(*blobs_of(after)[i]) for i in after.moving}
    absent = [
        (layer, heat[pair(layer, expert)])
        for layer in (0, 2)
        for expert in range(NUM_EXPERTS)
        if (layer, expert) not in blobs_of(before) and pair(layer, expert) not in moved.values()
    ]
    if len(moved) == most:  # the coldest of them is as hot as any that fits and was left
        coldest, sizes = min(heat[each] for each in moved.values()), [after.slots[i].extent.size_bytes for i in moved]
        assert all(left <= coldest for layer, left in absent if SIZES[layer] <= min(sizes))
        return
    for i, slot in enumerate(before.slots):
        own = heat[pair(slot.layer, slot.expert)]
        fitting = [left for layer, left in absent if SIZES[layer] <= slot.extent.size_bytes]
        assert i in moved or all(left <= own + own // 4 + MIN_GAIN for left in fitting)


@given(heat=HEATS)
def test_with_slots_of_one_size_a_start_takes_the_hottest(heat):
    inventory = small_inventory(blob_bytes=(700, 0, 700), num_experts=NUM_EXPERTS)
    heat[NUM_EXPERTS : 2 * NUM_EXPERTS] = [0] * NUM_EXPERTS
    slots = tuple(Slot(0, expert, Extent(1024 * expert, 700)) for expert in range(3))
    warm = Residency(slots, tuple(heat)).exchanged(inventory, most=inventory.num_pairs, is_free=True)
    found = sorted(heat[pair(*blob)] for blob in blobs_of(warm))
    assert found == sorted(heat)[-3:]
