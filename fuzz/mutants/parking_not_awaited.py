"""The session is written over while its copy to the host is under way."""

MODULE = "strata.core.serving.parking"
FRAGMENT = """\
    at, notice = notify(at, (Stream.VERIFIER,))
    copies = _copies(Stream.VERIFIER, (CopyPair(*pair)"""
REPLACEMENT = """\
    at, notice = notify(at, (Stream.PROMPT,))
    copies = _copies(Stream.VERIFIER, (CopyPair(*pair)"""
SOURCE = "lending.md 4.1, commit, checkpoint, park"
