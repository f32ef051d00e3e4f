"""V is left on the card."""

MODULE = "strata.core.serving.parking"
FRAGMENT = 'yield _Piece(Access(values, "kv", f"v {layer}"), start * value_bytes, num_tokens * value_bytes)'
REPLACEMENT = "pass"
SOURCE = "cases B2"
