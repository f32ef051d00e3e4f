"""The first window does not take the lent slots back."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "at, orders, later = bring_home(self.plan, self.places, at)\n        if at.is_coming"
REPLACEMENT = "orders = later = Orders()\n        if at.is_coming"
SOURCE = "lending.md 5, invariant 7"
