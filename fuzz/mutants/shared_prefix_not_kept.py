"""Cells that stay are given up when another conversation comes back."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "at = replace(at, session=at.session.kept(takeover.kept))"
REPLACEMENT = "at = replace(at, session=at.session.kept(0))"
SOURCE = "lending.md 4, 2"
