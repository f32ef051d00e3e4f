"""The live session is given up whatever it holds."""

MODULE = "strata.core.serving.conversations"
FRAGMENT = "if parked.size_bytes and _is_worth_parking(session, num_usable, parked.listed, kinds):"
REPLACEMENT = "if False:"
SOURCE = "lending.md 5, invariant 41"
