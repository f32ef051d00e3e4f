"""A class has no room for all that is asked of it."""

MODULE = "strata.core.memory.scratch"
FRAGMENT = "1 << (size_bytes - 1).bit_length()"
REPLACEMENT = "1 << size_bytes.bit_length() - 1"
SOURCE = "lending.md 5, invariant 36"
