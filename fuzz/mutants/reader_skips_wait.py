"""A reader does not wait for the copy into its slots."""

MODULE = "strata.core.serving.chunk"
FRAGMENT = """\
        *(Wait(lane.stream, batch.group.copied_event) for batch in batches),
"""
REPLACEMENT = ""
SOURCE = "lending.md 4.1, prompt compute stream"
