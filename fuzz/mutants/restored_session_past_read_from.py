"""The session holds all that was parked, although only a part came back."""

MODULE = "strata.core.serving.parking"
FRAGMENT = "session = Session(request.prompt_ids[: takeover.read_from])"
REPLACEMENT = "session = takeover.restore.session"
SOURCE = "lending.md 5, invariant 38"
