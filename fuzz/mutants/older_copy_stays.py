"""The copy of an earlier turn keeps its place."""

MODULE = "strata.core.serving.conversations"
FRAGMENT = "left = [other for other in parked.listed if other is needed or not _is_spare(other, session, kinds)]"
REPLACEMENT = "left = list(parked.listed)"
SOURCE = "cases A4"
