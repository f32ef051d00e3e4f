"""After a failure the room is what the request knows of it."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "room = self._lost_room(at)"
REPLACEMENT = "room = at.room"
SOURCE = "lending.md 4, 8"
