"""Only the first copy group of a refill is issued."""

MODULE = "strata.core.serving.masters"
FRAGMENT = (
    "        if len(group) == MAX_COPY_GROUP:\n            yield Copy(stream, tuple(group))\n            group = []"
)
REPLACEMENT = "        if len(group) == MAX_COPY_GROUP:\n            break"
SOURCE = "lending.md 5, invariant 3"
