"""A blob is written over while the window that reads it may run."""

MODULE = "strata.core.serving.swapping"
FRAGMENT = "cleared = (Record(Stream.VERIFIER, CLEARED), Wait(Stream.COPY, CLEARED))"
REPLACEMENT = "cleared = (Record(Stream.VERIFIER, CLEARED),)"
SOURCE = "lending.md 4.1, adaptive swap"
