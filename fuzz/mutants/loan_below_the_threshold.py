"""The elastic loan is taken again by any read."""

MODULE = "strata.core.memory.policy"
FRAGMENT = "least=self.repeat_min_tokens)"
REPLACEMENT = "least=0)"
SOURCE = "lending.md 3.2, fresh tokens >= the threshold"
