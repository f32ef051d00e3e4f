"""A room is not closed when the first window was the last."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "            return Idle(at), Orders(acts=acts)"
REPLACEMENT = "            return Idle(at), Orders()"
SOURCE = "lending.md 4, 6"
