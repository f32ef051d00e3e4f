"""A slot of the room goes home while its last reader may run."""

MODULE = "strata.core.serving.borrowing"
FRAGMENT = "(*waits, *copy_groups(Stream.COPY, _slots_home(plan, room, slots)))"
REPLACEMENT = "tuple(copy_groups(Stream.COPY, _slots_home(plan, room, slots)))"
SOURCE = "lending.md 4.1, reclaim of a room slot waits for used"
