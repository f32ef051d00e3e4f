"""After a failure only slots that are known to be dirty go home."""

MODULE = "strata.core.serving.borrowing"
FRAGMENT = """\
    if at.is_broken:
        yield from pairs_home"""
REPLACEMENT = """\
    if False:
        yield from pairs_home"""
SOURCE = "lending.md 4, 8"
