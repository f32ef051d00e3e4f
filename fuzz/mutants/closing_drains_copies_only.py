"""Kernels under way are not waited for when a read closes."""

MODULE = "strata.core.serving.settling"
FRAGMENT = "PROMPT_STREAMS = (Stream.PROMPT, Stream.COPY)"
REPLACEMENT = "PROMPT_STREAMS = (Stream.COPY,)"
SOURCE = "lending.md 4.1, refill waits for prompt compute and copy stream"
EQUIVALENT = (
    "A read closes by itself, or is given up, right after the host took the notice of the prompt stream, on "
    "which nothing was issued since. After a failure the verifier's stream is drained too, and it waits for "
    "the prompt stream by then (chunk_done)."
)
