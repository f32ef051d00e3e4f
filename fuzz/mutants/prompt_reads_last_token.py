"""The prompt path reads the token of the first window too."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "rows = min(layout.chunk_tokens, len(request.prompt_ids) - 1 - start)"
REPLACEMENT = "rows = min(layout.chunk_tokens, len(request.prompt_ids) - start)"
SOURCE = "lending.md 5, invariant 39"
