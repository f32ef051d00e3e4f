"""A conversation counts as parked on each stage as soon as it is there."""

MODULE = "strata.core.serving.pipeline"
FRAGMENT = "return None if any(type(other) is type(at) and came is None for other, came in alike) else event"
REPLACEMENT = "return event if alike else None"
SOURCE = "lending.md 4.1, commit, checkpoint, park"
