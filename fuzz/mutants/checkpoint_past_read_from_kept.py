"""Checkpoints stay although cells below them are written over."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "after.at.checkpoints.kept(len(after.at.session.ids))"
REPLACEMENT = "after.at.checkpoints"
SOURCE = "lending.md 5, invariant 38"
