"""A slot of the room goes home while its last reader may run."""

MODULE = "strata.core.serving.borrowing"
FRAGMENT = "return replace(at, room=room.returning(slots)), (*waits, *home)"
REPLACEMENT = "return replace(at, room=room.returning(slots)), tuple(home)"
SOURCE = "lending.md 4.1, reclaim of a room slot waits for used"
