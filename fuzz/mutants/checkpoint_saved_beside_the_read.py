"""The state is copied on a stream that does not wait for the chunk."""

MODULE = "strata.core.serving.parking"
FRAGMENT = "_copies(stream, (CopyPair(*pair) for pair in sides))"
REPLACEMENT = "_copies(Stream.COPY, (CopyPair(*pair) for pair in sides))"
SOURCE = "lending.md 4.1, commit, checkpoint, park"
