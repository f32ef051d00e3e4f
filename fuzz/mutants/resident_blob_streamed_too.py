"""A resident expert is staged and computed a second time."""

MODULE = "strata.core.serving.chunk"
FRAGMENT = "for expert in wanted if (layer, expert) not in chunk.resident])"
REPLACEMENT = "for expert in wanted])"
SOURCE = "lending.md 3.1, ring"
