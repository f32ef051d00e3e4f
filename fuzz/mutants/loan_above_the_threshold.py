"""A read of exactly the threshold takes no elastic loan."""

MODULE = "strata.core.lending.policy"
FRAGMENT = "            if fresh_tokens >= self.repeat_min_tokens"
REPLACEMENT = "            if fresh_tokens > self.repeat_min_tokens"
SOURCE = "lending.md 3.2, fresh tokens >= the threshold"
