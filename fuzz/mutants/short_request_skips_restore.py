"""A first request that reads nothing runs its window on lent segments."""

MODULE = "strata.core.serving.machine"
FRAGMENT = """\
        at, orders = bring_home(self.plan, self.places, at)
        if has_room:"""
REPLACEMENT = """\
        at, orders = bring_home(self.plan, self.places, replace(at, segments=None))
        if has_room:"""
SOURCE = "lending.md 5, invariant 31"
