"""A copy waits for the reader of its first slot alone."""

MODULE = "strata.core.memory.ring"
FRAGMENT = "readers[slot] for slot in slots if readers[slot]))"
REPLACEMENT = "readers[slot] for slot in slots[:1] if readers[slot]))"
SOURCE = "lending.md 5, invariant 13"
