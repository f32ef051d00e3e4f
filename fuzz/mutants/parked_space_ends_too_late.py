"""The last gap may end behind the space."""

MODULE = "strata.core.serving.conversations"
FRAGMENT = "return start if space_bytes - start >= size_bytes else None"
REPLACEMENT = "return start if space_bytes - start >= size_bytes - 256 else None"
SOURCE = "lending.md 3.5, parked bytes"
