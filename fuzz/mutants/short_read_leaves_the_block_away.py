"""Of what was lent from the start, the block does not come home for a short read."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "self._passing_room(orders, has_room=has_room).then(later))"
REPLACEMENT = "self._passing_room(orders, has_room=has_room))"
SOURCE = "lending.md 5, invariant 21"
