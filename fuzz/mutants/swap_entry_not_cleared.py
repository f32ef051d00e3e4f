"""The table still names the blob that is written over."""

MODULE = "strata.core.serving.swapping"
FRAGMENT = "at, orders = _publish(plan, places, at, cache)"
REPLACEMENT = "at, orders = replace(at, cache=cache), Orders()"
SOURCE = "lending.md 4.1, adaptive swap"
