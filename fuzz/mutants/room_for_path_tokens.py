"""The room is decided by what the prompt path reads."""

MODULE = "strata.core.memory.policy"
FRAGMENT = "self._decline_room(fresh_tokens,"
REPLACEMENT = "self._decline_room(fresh_tokens - 1,"
SOURCE = "lending.md 5, invariant 18"
