"""Checks the tokenizer keys of a GGUF file against each other, before anybody builds a tokenizer of them.

Decides which types, lengths and ids are sound; knows nothing of how text is split.
"""

from strata.model.gguf.metadata import Metadata

TOKENS = "tokenizer.ggml.tokens"
_PER_TOKEN = {"tokenizer.ggml.scores": "floats", "tokenizer.ggml.token_type": "integers"}
_TOKEN_TYPES = frozenset(range(7))


def check_vocabulary(metadata: Metadata) -> None:
    """Raises ModelError for tokenizer arrays of a wrong type or of different lengths, and for token ids outside the
    vocabulary. A file without any tokenizer key passes: whether it needs one is for others to say."""
    if not any(key.startswith("tokenizer.ggml.") for key in metadata):
        return
    metadata.text("tokenizer.ggml.model")
    num_tokens = len(metadata.texts(TOKENS))
    if num_tokens == 0:
        raise metadata.error(TOKENS, "is empty")
    for key, kind in _PER_TOKEN.items():
        if key not in metadata:
            continue
        values = metadata.floats(key) if kind == "floats" else metadata.integers(key)
        if len(values) != num_tokens:
            raise metadata.error(key, f"has {len(values):,} elements, {TOKENS} has {num_tokens:,}")
        if kind == "integers" and (unknown := set(values) - _TOKEN_TYPES):
            raise metadata.error(key, f"holds token type {min(unknown)}, which is outside 0 .. 6")
    if "tokenizer.ggml.merges" in metadata:
        metadata.texts("tokenizer.ggml.merges")
    _check_ids(metadata, num_tokens)


def _check_ids(metadata: Metadata, num_tokens: int) -> None:
    for key in metadata:
        if not (key.startswith("tokenizer.ggml.") and key.endswith("_token_id")):
            continue
        # Some writers store -1, as i32 or as the largest u32, for a token that the model does not have.
        token_id = metadata.integer(key, minimum=-1, maximum=2**32 - 1)
        if token_id not in (-1, 2**32 - 1) and token_id >= num_tokens:
            raise metadata.error(key, f"= {token_id:,} is outside the vocabulary of {num_tokens:,} tokens")
