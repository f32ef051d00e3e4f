"""The conversation that was used last goes first."""

MODULE = "strata.core.serving.conversations"
FRAGMENT = "left.remove(victims.pop(0))"
REPLACEMENT = "left.remove(victims.pop())"
SOURCE = "lending.md 3.5, parked bytes"
