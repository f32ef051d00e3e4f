"""A window does not wait for its drafts."""

MODULE = "strata.core.serving.windows"
FRAGMENT = """\
            Wait(Stream.VERIFIER, "draft_done"),
"""
REPLACEMENT = ""
SOURCE = "lending.md 4.1, row drafter"
