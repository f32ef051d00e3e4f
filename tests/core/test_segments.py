"""Zone, elastic loan and room by themselves: wherever a loan of segments stops, the way home is found in the books."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.core.commands import Map, Transfer, Unmap
from strata.core.errors import Refusal
from strata.core.extent import Extent
from strata.core.lending.ledger import Holding, Ledger
from strata.core.lending.loan import LoanPhase
from strata.core.lending.room import Room
from strata.core.lending.segments import Act, Backing, SegmentLoan, at_home, release, restore
from strata.core.memory.shapes import Region, room_slots
from strata.core.memory.zone import Zone, plan_zone

SEGMENT = 10
REGIONS = (
    Region("verifier", Extent(0, 14)),
    Region("block", Extent(14, 9)),
    Region("draft head", Extent(23, 0)),
    Region("head", Extent(23, 12)),
    Region("weights", Extent(35, 5)),
    Region("cache", Extent(40, 60)),
)
NAMES = ("verifier", "block", "draft head", "head")
SLOTS = Extent(70, 30)
LEND, GIVE_BACK = Transfer(SLOTS, "cache", "prompt"), Transfer(SLOTS, "prompt", "cache")


def zone_of(*, segment_bytes: int = SEGMENT, names: tuple[str, ...] = NAMES) -> Zone:
    zone = plan_zone(REGIONS, names, segment_bytes=segment_bytes, arena_bytes=100)
    assert isinstance(zone, Zone), zone
    return zone


Books = tuple[Ledger, Backing]


def books_at_home(zone: Zone) -> Books:
    held = [Holding(region.extent, region.name) for region in REGIONS if region.extent.size_bytes]
    return Ledger((*held, Holding(zone.all_behind, ""))), at_home(zone)


def after(books: Books, acts: tuple[Act, ...]) -> Books:
    ledger, backing = books
    moved = ledger.after(act for act in acts if isinstance(act, Transfer))
    moved.check()
    return moved, backing.after(acts)


def owners(books: Books) -> list[tuple[int, str]]:
    return [(byte, held.owner) for held in books[0].holdings for byte in range(held.extent.size_bytes)]


def way_home(zone: Zone, books: Books) -> tuple[Act, ...]:
    """As whoever gives the slots back does: only if the prompt path has them."""
    ledger, backing = books
    return restore(zone, backing, ledger, (GIVE_BACK,) if ledger.is_owner("prompt", SLOTS) else ())


def test_only_whole_segments_move_and_what_shares_the_last_one_stays():
    zone = zone_of()
    assert zone.parts == (*REGIONS[:2], Region("head", Extent(23, 7)))
    assert (zone.num_segments, zone.size_bytes, zone.all_behind) == (3, 30, Extent(100, 30))
    assert [zone.home(2), zone.behind(2)] == [Extent(20, 10), Extent(120, 10)]


def test_a_zone_that_ends_inside_its_first_region_has_that_part_alone():
    zone = zone_of(segment_bytes=12, names=("verifier",))
    assert zone.parts == (Region("verifier", Extent(0, 12)),)


def test_a_zone_of_less_than_a_segment_is_refused():
    refused = plan_zone(REGIONS, ("verifier",), segment_bytes=15, arena_bytes=100)
    assert isinstance(refused, Refusal)
    assert "verifier take 14 B, a segment has 15 B" in refused.reason


def test_a_release_gives_everything_up_before_the_first_unmap_and_grows_last():
    zone = zone_of()
    assert release(zone, (LEND,)) == (
        Transfer(Extent(0, 14), "verifier", ""),
        Transfer(Extent(14, 9), "block", ""),
        LEND,
        Transfer(Extent(23, 7), "head", ""),
        *(Unmap(zone.home(i)) for i in range(3)),
        *(Map(i, zone.behind(i)) for i in range(3)),
        Transfer(zone.all_behind, "", "prompt"),
    )


def test_a_restore_goes_the_same_way_backwards():
    zone = zone_of()
    away = after(books_at_home(zone), release(zone, (LEND,)))
    assert way_home(zone, away) == (
        Transfer(zone.all_behind, "prompt", ""),
        *(act for i in (2, 1, 0) for act in (Unmap(zone.behind(i)), Map(i, zone.home(i)))),
        Transfer(Extent(23, 7), "", "head"),
        GIVE_BACK,
        Transfer(Extent(14, 9), "", "block"),
        Transfer(Extent(0, 14), "", "verifier"),
    )


@pytest.mark.parametrize("lend", [(), (LEND,)], ids=["segments alone", "slots too"])
@pytest.mark.parametrize("segment_bytes", [5, 10, 12, 30, 35])
def test_from_every_act_of_a_release_and_of_a_restore_the_way_home_is_found(segment_bytes, lend):
    zone = zone_of(segment_bytes=segment_bytes)
    home = books_at_home(zone)
    out = release(zone, lend)
    for num_out in range(len(out) + 1):
        stopped = after(home, out[:num_out])
        back = way_home(zone, stopped)
        for num_back in range(len(back) + 1):
            again = after(stopped, back[:num_back])
            there = after(again, way_home(zone, again))
            assert owners(there) == owners(home), (num_out, num_back)
            assert there[1] == at_home(zone), (num_out, num_back)
            assert way_home(zone, there) == ()


def test_a_segment_is_never_in_two_places():
    zone = zone_of()
    with pytest.raises(AssertionError):
        at_home(zone).after((Map(1, zone.behind(1)),))
    with pytest.raises(KeyError):
        at_home(zone).after((Unmap(zone.behind(1)),))


def test_a_loan_of_segments_is_over_when_it_was_called_back_and_all_are_at_home():
    zone = zone_of()
    called_back = SegmentLoan(zone).restoring()
    called_back.check_settled(at_home(zone))
    with pytest.raises(AssertionError):
        SegmentLoan(zone).check_settled(at_home(zone))
    with pytest.raises(AssertionError):
        called_back.check_settled(at_home(zone).after((Unmap(zone.home(0)),)))


def room(*, num_slots: int = 4, first_slot: int = 3) -> Room:
    slots = tuple(Extent(100 + 10 * i, 10) for i in range(num_slots))
    return Room(Extent(100, 10 * num_slots + 7), slots, first_slot)


@given(num_entries=st.integers(0, 40), num_slots=st.integers(1, 9), first_slot=st.integers(0, 9))
def test_dirty_slots_are_those_of_the_block_that_an_entry_went_through(num_entries, num_slots, first_slot):
    served = room(num_slots=num_slots, first_slot=first_slot)
    used = {entry % (first_slot + num_slots) for entry in range(num_entries)}
    assert served.dirty(num_entries) == {slot for slot in used if slot >= first_slot}
    assert all(served.extent.contains(run) for run in served.runs(served.dirty(num_entries)))


def test_neighbours_of_the_room_go_home_in_one_piece():
    served = room(num_slots=6, first_slot=3)
    assert served.runs(frozenset()) == []
    assert served.runs(frozenset({3, 4, 6, 8})) == [Extent(100, 20), Extent(130, 10), Extent(150, 10)]


def test_a_slot_goes_home_once_and_none_when_all_are_on_their_way():
    begun = room().returning(frozenset({3, 4}))
    assert begun.returned == {3, 4}
    assert begun.returning(frozenset({5})).returned == {3, 4, 5}
    with pytest.raises(AssertionError):
        begun.returning(frozenset({4}))
    with pytest.raises(AssertionError):
        begun.restoring().returning(frozenset({5}))
    assert begun.restoring().restoring() == replace(begun, phase=LoanPhase.RESTORING)


def test_a_room_opens_and_closes_in_place():
    served = room()
    assert served.open == Transfer(served.extent, "block", "prompt", in_place=True)
    assert served.close == Transfer(served.extent, "prompt", "block", in_place=True)


@pytest.mark.parametrize(
    ("block", "stride", "slots"), [(99, 100, 0), (100, 100, 1), (250, 100, 2), (10, 0, 0), (0, 0, 0)]
)
def test_a_room_has_whole_slots_only(block, stride, slots):
    assert room_slots(block, stride) == slots
