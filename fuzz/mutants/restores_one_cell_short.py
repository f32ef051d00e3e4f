"""The last token before read_from does not come back."""

MODULE = "strata.core.serving.parking"
FRAGMENT = "end=takeover.read_from)"
REPLACEMENT = "end=max(takeover.kept + 1, takeover.read_from - 1))"
SOURCE = "lending.md 5, invariant 40"
