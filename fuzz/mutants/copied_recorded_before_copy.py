"""The event of a copy stands before it."""

MODULE = "strata.core.serving.chunk"
FRAGMENT = "commands += [Copy(Stream.COPY, pairs), Record(Stream.COPY, group.copied_event)]"
REPLACEMENT = "commands += [Record(Stream.COPY, group.copied_event), Copy(Stream.COPY, pairs)]"
SOURCE = "lending.md 4.1, prompt copy stream signals copied"
