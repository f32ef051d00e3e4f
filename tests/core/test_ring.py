"""The ring against a naive model: one slot list, written and read in order."""

from hypothesis import given
from hypothesis import strategies as st

from strata.core.memory.ring import Ring, consume_groups, issue_group


@given(num_slots=st.integers(1, 40), wishes=st.lists(st.integers(1, 16), max_size=60), data=st.data())
def test_entry_k_uses_slot_k_mod_n_and_waits_for_exactly_its_last_readers(num_slots, wishes, data):
    ring, flight, last_reader = Ring(num_slots), [], [""] * num_slots
    for wish in wishes:
        num_entries = min(wish, ring.max_group_entries)
        while ring.num_free < num_entries or (flight and data.draw(st.booleans())):
            group = flight.pop(0)
            ring = consume_groups(ring, [group])
            for slot in group.slots:
                last_reader[slot] = group.used_event
        first = ring.num_issued
        ring, group = issue_group(ring, num_entries=num_entries)
        flight.append(group)
        assert group.slots == tuple((first + i) % num_slots for i in range(num_entries))
        assert set(group.waits) == {last_reader[slot] for slot in group.slots} - {""}
        assert ring.num_issued - ring.num_consumed == sum(one.num_entries for one in flight) <= num_slots
        events = [one.copied_event for one in flight]
        assert len(set(events)) == len(events)


def test_two_groups_always_fit():
    for num_slots in range(2, 60):
        assert 2 * Ring(num_slots).max_group_entries <= num_slots


@given(
    num_slots=st.integers(2, 30),
    num_kept=st.integers(1, 29),
    before=st.lists(st.integers(1, 16), max_size=30),
    behind=st.lists(st.integers(1, 16), max_size=60),
    is_known=st.booleans(),
    data=st.data(),
)
def test_a_ring_that_narrows_never_shares_a_slot_and_leaves_the_others_alone(
    num_slots, num_kept, before, behind, is_known, data
):
    num_kept = min(num_kept, num_slots - 1)
    ring, flight, last_reader = Ring(num_slots), [], [""] * num_slots
    for number, wish in enumerate((*before, *behind)):
        if number == len(before):
            while flight:
                ring, last_reader = read(ring, flight.pop(0), last_reader)
            ring = ring.narrowing(num_kept=num_kept, num_entries=sum(behind) if is_known else 0)
            assert ring.narrows_at % num_slots == 0 and ring.narrows_at >= max(num_slots, ring.num_issued)
        num_entries = min(wish, ring.max_group_entries)
        while ring.num_free < num_entries or (flight and data.draw(st.booleans())):
            ring, last_reader = read(ring, flight.pop(0), last_reader)
        ring, group = issue_group(ring, num_entries=num_entries)
        flight.append(group)
        held = [slot for one in flight for slot in one.slots]
        assert len(set(held)) == len(held)
        for entry, slot in enumerate(group.slots, group.first_entry):
            assert slot < num_kept if entry >= ring.narrows_at else slot == entry % num_slots
        assert set(group.waits) == {last_reader[slot] for slot in group.slots} - {""}
        if ring.num_consumed >= ring.narrows_at:
            assert max(held) < num_kept


def read(ring, group, last_reader):
    behind = [group.used_event if slot in group.slots else event for slot, event in enumerate(last_reader)]
    return consume_groups(ring, [group]), behind


@given(num_slots=st.integers(2, 30), num_issued=st.integers(0, 90), num_entries=st.integers(0, 400))
def test_a_ring_narrows_two_laps_ahead_of_the_end_at_most(num_slots, num_issued, num_entries):
    ring = Ring(num_slots, num_issued, num_issued).narrowing(num_kept=1, num_entries=num_entries)
    end = num_issued + num_entries
    if num_entries >= 3 * num_slots:
        assert end - 2 * num_slots <= ring.narrows_at <= end - num_slots
