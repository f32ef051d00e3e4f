"""The room is decided by what the prompt path reads."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "has_room = not policy.no_room(fresh_tokens,"
REPLACEMENT = "has_room = not policy.no_room(fresh_tokens - 1,"
SOURCE = "lending.md 5, invariant 18"
