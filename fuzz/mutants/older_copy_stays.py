"""The copy of an earlier turn keeps its place."""

MODULE = "strata.core.serving.conversations"
FRAGMENT = "left = [other for other in parked.listed if session.shared(other.session.ids) < len(other.session.ids)]"
REPLACEMENT = "left = list(parked.listed)"
SOURCE = "cases A4"
