"""The first window does not take the lent slots back."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "        at, orders = bring_home(self.plan, self.places, at)\n        if has_room"
REPLACEMENT = "        orders = Orders()\n        if has_room"
SOURCE = "lending.md 5, invariant 7"
