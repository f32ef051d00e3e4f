"""The block is not copied home behind an elastic loan."""

MODULE = "strata.core.serving.borrowing"
FRAGMENT = "    parts = at.segments.zone.parts if at.segments else ()"
REPLACEMENT = "    parts = at.segments.zone.parts[:0] if at.segments else ()"
SOURCE = "lending.md 5, invariant 21"
