"""The session is written over while its copy to the host is under way."""

MODULE = "strata.core.serving.parking"
FRAGMENT = """\
    at, notice = notify(at, (Stream.VERIFIER,))
    return Parking("""
REPLACEMENT = """\
    at, notice = notify(at, (Stream.PROMPT,))
    return Parking("""
SOURCE = "lending.md 4.1, commit, checkpoint, park"
