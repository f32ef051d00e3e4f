"""The last dirty slot of a group does not go home."""

MODULE = "strata.core.serving.borrowing"
FRAGMENT = "owner=PROMPT) for slot in sorted(slots))"
REPLACEMENT = "owner=PROMPT) for slot in sorted(slots)[:-1])"
SOURCE = "lending.md 5, invariant 21"
