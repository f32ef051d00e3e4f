"""A request that reads nothing borrows."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "        if path_tokens == 0:\n            return self._first_window(at, request, has_room=has_room)"
REPLACEMENT = (
    "        if path_tokens == 0 and not plan.read(1).lent:\n"
    "            return self._first_window(at, request, has_room=has_room)"
)
SOURCE = "lending.md 4, 4"
