"""A notice that came before anybody awaited it is forgotten."""

MODULE = "strata.engine.runner"
FRAGMENT = "self._early.add(event.tag)"
REPLACEMENT = "pass"
SOURCE = "lending.md 5: the host waits for what was issued"
