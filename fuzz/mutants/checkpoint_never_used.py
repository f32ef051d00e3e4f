"""A prompt that parts with the session is read from the start."""

MODULE = "strata.core.serving.conversations"
FRAGMENT = "if resumed is not None and resumed.position > kept:"
REPLACEMENT = "if False:"
SOURCE = "cases B6"
