"""A room is not closed before the second window."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "orders = Orders(acts=acts).then(self._committed"
REPLACEMENT = "orders = Orders().then(self._committed"
SOURCE = "lending.md 5, invariant 7"
