"""The last window of a reply is forgotten."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "return Idle(replace(at, session=session)), Orders(acts=acts)"
REPLACEMENT = "return Idle(at), Orders(acts=acts)"
SOURCE = "cases B6"
