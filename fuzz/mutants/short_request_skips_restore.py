"""A first request that reads nothing runs its window on lent segments."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "at, orders, later = bring_home(self.plan, self.places, at)\n        if at.is_coming"
REPLACEMENT = (
    "at, orders, later = bring_home(self.plan, self.places, replace(at, segments=None))\n        if at.is_coming"
)
SOURCE = "lending.md 5, invariant 31"
