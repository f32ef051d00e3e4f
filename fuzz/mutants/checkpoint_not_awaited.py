"""A prompt is read while the state that it goes on from is on its way."""

MODULE = "strata.core.serving.parking"
FRAGMENT = """\
        at = replace(at, parked=at.parked.without(restored))
    at, notice = notify(at, (Stream.VERIFIER,))"""
REPLACEMENT = """\
        at = replace(at, parked=at.parked.without(restored))
    awaited = Stream.PROMPT if isinstance(restored, Checkpoint) else Stream.VERIFIER
    at, notice = notify(at, (awaited,))"""
SOURCE = "lending.md 4.1, commit, checkpoint, park"
