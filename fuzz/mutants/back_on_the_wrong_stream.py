"""The event of the refill is recorded on the prompt stream."""

MODULE = "strata.core.serving.borrowing"
FRAGMENT = "Record(Stream.COPY, BACK)"
REPLACEMENT = "Record(Stream.PROMPT, BACK)"
SOURCE = "lending.md 4.1, refill signals back"
