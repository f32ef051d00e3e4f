"""A run that is shorter than the drafts goes on with the oldest tokens."""

MODULE = "strata.engine.lookup"
FRAGMENT = "newest[found - 1 - i % found]"
REPLACEMENT = "newest[found - 1 - i]"
SOURCE = "README, drafts: what followed the run is the guess"
