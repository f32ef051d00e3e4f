"""A read of just so many tokens is not read by windows."""

MODULE = "strata.core.memory.policy"
FRAGMENT = "return 1 < fresh_tokens <= self.short_read_tokens"
REPLACEMENT = "return 1 < fresh_tokens < self.short_read_tokens"
SOURCE = "lending.md 4, 4"
