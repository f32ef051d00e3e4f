"""The elastic loan is taken again without a switch."""

MODULE = "strata.core.memory.policy"
FRAGMENT = '            return "taken once, at start"'
REPLACEMENT = '            return ""'
SOURCE = "lending.md 3.2, without REPEAT the loan is not taken again"
