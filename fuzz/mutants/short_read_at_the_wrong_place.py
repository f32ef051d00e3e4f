"""A window that reads stands one position late."""

MODULE = "strata.core.serving.short_reads"
FRAGMENT = "pack_header(start))"
REPLACEMENT = "pack_header(start + 1))"
SOURCE = "lending.md 4, 4"
