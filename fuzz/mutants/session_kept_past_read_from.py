"""The session keeps ids of cells that this read writes over."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "at = replace(at, session=at.session.kept(takeover.kept))"
REPLACEMENT = "at = replace(at, session=at.session)"
SOURCE = "lending.md 5, invariant 40"
