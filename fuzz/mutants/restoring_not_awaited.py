"""The prompt is read while its first cells are on their way."""

MODULE = "strata.core.serving.parking"
FRAGMENT = """\
        at = replace(at, parked=at.parked.without(restored))
    at, notice = notify(at, (Stream.VERIFIER,))"""
REPLACEMENT = """\
        at = replace(at, parked=at.parked.without(restored))
    at, notice = notify(at, (Stream.PROMPT,))"""
SOURCE = "lending.md 4.1, commit, checkpoint, park"
