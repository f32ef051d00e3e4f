"""A read that was given up keeps its slots."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "        at, orders = bring_home(self.plan, self.places, at)\n        if at.is_broken"
REPLACEMENT = "        orders = Orders()\n        if at.is_broken"
SOURCE = "lending.md 4, 7"
