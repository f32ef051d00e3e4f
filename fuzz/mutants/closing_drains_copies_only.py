"""Kernels under way are not waited for when a read closes."""

MODULE = "strata.core.serving.settling"
FRAGMENT = "PROMPT_STREAMS = (Stream.PROMPT, Stream.COPY)"
REPLACEMENT = "PROMPT_STREAMS = (Stream.COPY,)"
SOURCE = "lending.md 4.1, refill waits for prompt compute and copy stream"
