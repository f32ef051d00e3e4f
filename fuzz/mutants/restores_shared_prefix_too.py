"""What the card holds already is copied back as well."""

MODULE = "strata.core.serving.parking"
FRAGMENT = "start=max(0, takeover.kept - (not is_sure))"
REPLACEMENT = "start=0"
SOURCE = "lending.md 4, 2"
