"""The event of a reader stands before it."""

MODULE = "strata.core.serving.chunk"
FRAGMENT = """\
        launch,
        *(Record(lane.stream, batch.group.used_event) for batch in batches),"""
REPLACEMENT = """\
        *(Record(lane.stream, batch.group.used_event) for batch in batches),
        launch,"""
SOURCE = "lending.md 4.1, prompt compute stream signals used"
