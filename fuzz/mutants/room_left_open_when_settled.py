"""A room is not closed when a read was given up."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "return Idle(replace(at, is_broken=False)), Orders(acts=acts)"
REPLACEMENT = "return Idle(replace(at, is_broken=False)), Orders()"
SOURCE = "lending.md 4, 7"
