"""The copy of an earlier turn keeps its place."""

MODULE = "strata.core.serving.conversations"
FRAGMENT = "left = [other for other in parked.listed if not session.holds(other.session.ids, kinds)]"
REPLACEMENT = "left = list(parked.listed)"
SOURCE = "cases A4"
