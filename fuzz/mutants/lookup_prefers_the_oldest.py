"""Of equally long runs the oldest one is followed."""

MODULE = "strata.engine.lookup"
FRAGMENT = "in _places(newest):"
REPLACEMENT = "in reversed(list(_places(newest))):"
SOURCE = "README, drafts: what followed the run last is the guess"
