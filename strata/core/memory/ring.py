"""The prompt ring: which slot an entry uses, and how far copies may run ahead of their readers.

Entry k of a read uses slot k mod num_slots. Entries are issued and consumed in one order, in groups that are copied
together and read together; issued - consumed never exceeds num_slots (`lending.md` 5, invariants 13-15).

    entries  0 1 2 3 4 5 6 7 8 9 ...          num_slots = 4
             consumed ^     ^ issued          entries 2..5 are in flight, entry 6 must wait for the reader of 2

Near the end of a read whose last slots are the room's, the ring narrows to those before them, at the end of a lap, so
that the room's may go home behind the last entry, while what it carries is computed.

    slots    0 1 2 3 0 1 2 3 0 1 0 1 0 1      num_kept = 2, narrows_at = 8
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from strata.core.commands import MAX_COPY_GROUP

MAX_READ_GROUPS = 4
FAR = 1 << 62


@dataclass(frozen=True, slots=True)
class RingGroup:
    """Entries [first_entry, first_entry + num_entries) of the read, and the events that order them. `waits` are the
    events of the last readers of its slots."""

    first_entry: int
    num_entries: int
    slots: tuple[int, ...]
    copied_event: str
    used_event: str
    waits: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ring:
    """Counts since the read began. `readers[slot]`: the event of the slot's last reader, "" before the first. Entries
    from `narrows_at` on use the first `num_kept` slots alone."""

    num_slots: int
    num_issued: int = 0
    num_consumed: int = 0
    num_groups: int = 0
    readers: tuple[str, ...] = ()
    num_kept: int = 0
    narrows_at: int = FAR

    def __post_init__(self) -> None:
        assert 0 <= self.num_consumed <= self.num_issued <= self.num_consumed + self.num_slots, self

    @property
    def max_group_entries(self) -> int:
        """A group fills at most half of the ring, so that the next one can be copied while it is read."""
        return min(MAX_COPY_GROUP, max(1, self.num_sure // 2))

    @property
    def max_read_groups(self) -> int:
        """Groups that one launch reads: it costs the host more than its copies. No more than a third of the ring, so
        that two others are copied meanwhile, nor so many that much is left to compute behind the last copy."""
        return min(MAX_READ_GROUPS, max(1, self.num_sure // (3 * self.max_group_entries)))

    @property
    def num_sure(self) -> int:
        """Slots that the next group may count on."""
        return self.num_slots if self.num_issued + MAX_COPY_GROUP <= self.narrows_at else self.num_kept

    @property
    def num_free(self) -> int:
        num_narrow = self.num_issued - max(self.num_consumed, self.narrows_at)
        return min(self.num_slots - (self.num_issued - self.num_consumed), self.num_kept - num_narrow)

    @property
    def is_narrow(self) -> bool:
        """Whether no entry will come into a slot that is not kept."""
        return self.num_issued >= self.narrows_at

    def slot(self, entry: int) -> int:
        beyond = entry - self.narrows_at
        return entry % self.num_slots if beyond < 0 else beyond % self.num_kept

    def narrowing(self, *, num_kept: int, num_entries: int) -> "Ring":
        """The last `num_entries` of the read come next, or nobody knows how many, 0: narrow behind a whole lap, and
        less than two laps ahead of the end."""
        first = max(self.num_slots, self.num_issued, self.num_issued + num_entries - 2 * self.num_slots)
        return replace(self, num_kept=num_kept, narrows_at=-(-first // self.num_slots) * self.num_slots)


def issue_group(ring: Ring, *, num_entries: int) -> tuple[Ring, RingGroup]:
    """Take the next slots for one copy group. The caller has checked that they are free."""
    assert 1 <= num_entries <= min(ring.max_group_entries, ring.num_free), (ring, num_entries)
    readers = ring.readers or ("",) * ring.num_slots
    slots = tuple(ring.slot(ring.num_issued + i) for i in range(num_entries))
    # At most num_slots groups are in flight, so an event name comes round only after all its waits were issued.
    name = ring.num_groups % ring.num_slots
    waits = tuple(dict.fromkeys(readers[slot] for slot in slots if readers[slot]))
    group = RingGroup(ring.num_issued, num_entries, slots, f"copied {name}", f"used {name}", waits)
    taken = replace(ring, num_issued=ring.num_issued + num_entries, num_groups=ring.num_groups + 1, readers=readers)
    return taken, group


def consume_groups(ring: Ring, groups: Iterable[RingGroup]) -> Ring:
    """The reader of `groups` has been issued: their slots may be copied into again, behind their `used_event`."""
    num_consumed, readers = ring.num_consumed, list(ring.readers)
    for group in groups:
        assert group.first_entry == num_consumed, (ring, group)
        num_consumed += group.num_entries
        for slot in group.slots:
            readers[slot] = group.used_event
    return replace(ring, num_consumed=num_consumed, readers=tuple(readers))
