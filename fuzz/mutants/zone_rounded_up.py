"""The segment that lent parts share with others moves too."""

MODULE = "strata.core.memory.zone"
FRAGMENT = "num_segments = zone_bytes // segment_bytes"
REPLACEMENT = "num_segments = -(-zone_bytes // segment_bytes)"
SOURCE = "lending.md 3.2, only the regions of the table"
