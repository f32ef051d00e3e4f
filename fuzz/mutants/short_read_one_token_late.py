"""A window reads the tokens behind those that it stands at."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "now, behind = ids[start : start + rows], "
REPLACEMENT = "now, behind = ids[start + 1 : start + rows + 1], "
SOURCE = "lending.md 4, 4"
