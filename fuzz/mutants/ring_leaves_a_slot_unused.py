"""The ring never uses the last of its slots."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "Ring(len(layout.ring))"
REPLACEMENT = "Ring(max(1, len(layout.ring) - 1))"
SOURCE = "lending.md 2, entry k of a read uses slot k mod ring"
