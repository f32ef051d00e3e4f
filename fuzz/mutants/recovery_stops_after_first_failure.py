"""A failure while a failure is mended is final."""

MODULE = "strata.engine.recovery"
FRAGMENT = "MAX_RECOVERIES = 3"
REPLACEMENT = "MAX_RECOVERIES = 1"
SOURCE = "cases A6"
