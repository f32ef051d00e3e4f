"""The loan is still noted when nothing is open any more."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "replace(_settled(state.at), is_broken=False)"
REPLACEMENT = "replace(state.at, is_broken=False)"
SOURCE = "lending.md 5, invariant 1"
