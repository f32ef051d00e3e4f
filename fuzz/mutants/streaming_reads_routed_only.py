"""A streaming chunk lists every blob and reads only those chosen."""

MODULE = "strata.core.serving.machine"
FRAGMENT = """\
        if state.chunk.is_streaming:
            experts"""
REPLACEMENT = """\
        if False:
            experts"""
SOURCE = "lending.md 5, invariant 14"
