"""A request that reads nothing opens no room."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "return self._first_window(at, request, has_room=has_room)"
REPLACEMENT = "return self._first_window(at, request)"
SOURCE = "lending.md 3.1, at 0 every request opens it"
