"""A read of exactly the threshold takes no elastic loan."""

MODULE = "strata.core.memory.policy"
FRAGMENT = "least=self.repeat_min_tokens)"
REPLACEMENT = "least=self.repeat_min_tokens + 1)"
SOURCE = "lending.md 3.2, fresh tokens >= the threshold"
