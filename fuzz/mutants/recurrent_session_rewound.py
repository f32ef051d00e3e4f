"""A session with recurrent state is taken up in its middle, where the state no longer stands."""

MODULE = "strata.core.serving.prefix"
FRAGMENT = "return shared if is_whole or can_rewind(kinds) else 0"
REPLACEMENT = "return shared"
SOURCE = "lending.md 5, invariant 40"
