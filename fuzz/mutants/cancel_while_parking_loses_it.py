"""A copy that is complete when the client has left is forgotten."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "return Idle(parked(state.at, state.takeover)), Orders()"
REPLACEMENT = "return Idle(state.at), Orders()"
SOURCE = "lending.md 4, 7"
