"""Only the first copy group of a refill is issued."""

MODULE = "strata.core.serving.borrowing"
FRAGMENT = "    for first in range(0, len(pairs), MAX_COPY_GROUP):"
REPLACEMENT = "    for first in range(0, 1, MAX_COPY_GROUP):"
SOURCE = "lending.md 5, invariant 3"
