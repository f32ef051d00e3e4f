"""The ring against a naive model: one slot list, written and read in order."""

from hypothesis import given
from hypothesis import strategies as st

from strata.core.memory.ring import Ring, consume_group, issue_group


@given(num_slots=st.integers(1, 40), wishes=st.lists(st.integers(1, 16), max_size=60), data=st.data())
def test_entry_k_uses_slot_k_mod_n_and_waits_for_exactly_its_last_readers(num_slots, wishes, data):
    ring, flight, last_reader = Ring(num_slots), [], [""] * num_slots
    for wish in wishes:
        num_entries = min(wish, ring.max_group_entries)
        while ring.num_free < num_entries or (flight and data.draw(st.booleans())):
            group = flight.pop(0)
            ring = consume_group(ring, group)
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
