"""Of equally long runs the oldest one is followed."""

MODULE = "strata.engine.lookup"
FRAGMENT = ") > length:"
REPLACEMENT = ") >= length:"
SOURCE = "README, drafts: what followed the run last is the guess"
