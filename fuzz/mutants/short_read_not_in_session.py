"""What a window has read counts as one token more."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "session=at.session.grown(*ids[start : start + state.rows])"
REPLACEMENT = "session=at.session.grown(*ids[start : start + state.rows + 1])"
SOURCE = "lending.md 5, invariant 40"
