"""What the card holds already is copied back as well."""

MODULE = "strata.core.serving.parking"
FRAGMENT = "start=takeover.kept, end=takeover.read_from)"
REPLACEMENT = "start=0, end=takeover.read_from)"
SOURCE = "lending.md 4, 2"
