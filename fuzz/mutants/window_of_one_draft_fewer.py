"""The last draft has no row."""

MODULE = "strata.core.serving.windows"
FRAGMENT = "return 1 + num_given"
REPLACEMENT = "return max(1, num_given)"
SOURCE = "lending.md 2: a window has as many rows more as there are drafts"
