"""What is lent from the start is loaded first."""

MODULE = "strata.core.serving.startup"
FRAGMENT = "start = max(region.extent.offset_bytes, zone_bytes)"
REPLACEMENT = "start = region.extent.offset_bytes"
SOURCE = "lending.md 3.2, nothing of them is on the card yet"
