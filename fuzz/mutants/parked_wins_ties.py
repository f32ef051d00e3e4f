"""A parked conversation comes back although the live session has as much."""

MODULE = "strata.core.serving.conversations"
FRAGMENT = "if best is not None and best.session.read_from(prompt_ids, kinds) > read_from:"
REPLACEMENT = "if best is not None and best.session.read_from(prompt_ids, kinds) >= max(1, read_from):"
SOURCE = "lending.md 4, 2"
