"""The elastic loan is taken again by any read."""

MODULE = "strata.core.lending.policy"
FRAGMENT = "            if fresh_tokens >= self.repeat_min_tokens"
REPLACEMENT = "            if fresh_tokens >= 0"
SOURCE = "lending.md 3.2, fresh tokens >= the threshold"
