"""Windows read before what was lent from the start is home."""

MODULE = "strata.core.serving.machine"
FRAGMENT = """\
        at, orders, later = bring_home(self.plan, self.places, at)
        return self._short_window(at, request, self._passing_room(orders, has_room=has_room).then(later))
"""
REPLACEMENT = """\
        return self._short_window(at, request, self._passing_room(Orders(), has_room=has_room))
"""
SOURCE = "lending.md 5, invariant 31"
