"""The prompt is read while its first cells are on their way."""

MODULE = "strata.core.serving.parking"
FRAGMENT = "notify(replace(at, parked=at.parked.without(takeover.restore)), (Stream.VERIFIER,))"
REPLACEMENT = "notify(replace(at, parked=at.parked.without(takeover.restore)), (Stream.PROMPT,))"
SOURCE = "lending.md 4.1, commit, checkpoint, park"
