"""A request of exactly the threshold takes no room."""

MODULE = "strata.core.lending.policy"
FRAGMENT = "if fresh_tokens < self.room_min_tokens:"
REPLACEMENT = "if fresh_tokens <= self.room_min_tokens:"
SOURCE = "lending.md 3.1, at least includes equality"
