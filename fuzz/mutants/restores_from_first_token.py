"""A part comes back from the beginning of each piece."""

MODULE = "strata.core.serving.parking"
FRAGMENT = "part_bytes = offset_bytes + start * cell_bytes"
REPLACEMENT = "part_bytes = offset_bytes"
SOURCE = "lending.md 2, checkpoint"
