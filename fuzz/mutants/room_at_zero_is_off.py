"""A threshold of 0 is taken for none."""

MODULE = "strata.core.memory.policy"
FRAGMENT = "if self.room_min_tokens == NEVER:"
REPLACEMENT = "if self.room_min_tokens <= 0:"
SOURCE = "lending.md 3.1, 0 = every request"
