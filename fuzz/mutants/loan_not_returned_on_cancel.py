"""A read that was given up keeps its slots."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "at, orders, later = bring_home(self.plan, self.places, at)\n        orders = orders.then(later)"
REPLACEMENT = "orders = Orders()"
SOURCE = "lending.md 4, 7"
