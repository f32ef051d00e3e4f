"""A request of exactly the threshold takes no room."""

MODULE = "strata.core.memory.policy"
FRAGMENT = "least=self.room_min_tokens)"
REPLACEMENT = "least=self.room_min_tokens + 1)"
SOURCE = "lending.md 3.1, at least includes equality"
