"""A room does not open for a read by windows."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "return self._short_read(at, request, has_room=has_room)"
REPLACEMENT = "return self._short_read(at, request, has_room=False)"
SOURCE = "lending.md 3.1, at 0 every request opens it"
