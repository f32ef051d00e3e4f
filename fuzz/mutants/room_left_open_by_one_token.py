"""A room is not closed when the first window was the last."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "return Idle(replace(at, is_broken=False)), Orders(acts=acts)"
REPLACEMENT = "return Idle(replace(at, is_broken=False)), Orders()"
SOURCE = "lending.md 4, 6"
