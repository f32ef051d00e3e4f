"""Windows hand their rows over in the buffers of chunks."""

MODULE = "strata.core.serving.border"
FRAGMENT = "whole = staging.chunk_rows if stream is Stream.PROMPT else staging.window_rows"
REPLACEMENT = "whole = staging.chunk_rows"
SOURCE = "lending.md 5, invariant 44"
