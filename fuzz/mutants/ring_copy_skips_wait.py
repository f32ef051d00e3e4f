"""A copy does not wait for the last reader of its slot."""

MODULE = "strata.core.serving.chunk"
FRAGMENT = """\
        commands += [Wait(Stream.COPY, event) for event in group.waits]
"""
REPLACEMENT = ""
SOURCE = "lending.md 4.1, prompt copy stream"
