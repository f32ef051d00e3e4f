"""A copy that is complete when the client has left is forgotten."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "return Idle(state.arrived()), Orders()"
REPLACEMENT = "return Idle(state.arrived() if isinstance(state, Restoring) else state.at), Orders()"
SOURCE = "lending.md 4, 7"
