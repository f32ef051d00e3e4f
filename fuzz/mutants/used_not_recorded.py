"""A reader does not say that it is done."""

MODULE = "strata.core.serving.chunk"
FRAGMENT = """\
        launch,
        *(Record(lane.stream, batch.group.used_event) for batch in batches),"""
REPLACEMENT = "        launch,"
SOURCE = "lending.md 4.1, prompt compute stream signals used"
