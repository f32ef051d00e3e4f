"""A part comes back from the beginning of each piece."""

MODULE = "strata.core.serving.parking"
FRAGMENT = 'yield _Piece(Access(keys, "kv", f"k {layer}"), start * key_bytes, num_tokens * key_bytes)'
REPLACEMENT = 'yield _Piece(Access(keys, "kv", f"k {layer}"), 0, num_tokens * key_bytes)'
SOURCE = "lending.md 2, checkpoint"
