"""The loan is still noted when nothing is open any more."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "return Idle(replace(at, is_broken=False)), Orders(acts=acts)"
REPLACEMENT = "return Idle(replace(state.at, is_broken=False)), Orders(acts=acts)"
SOURCE = "lending.md 5, invariant 1"
