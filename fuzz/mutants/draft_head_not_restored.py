"""The drafter's head is not copied home."""

MODULE = "strata.core.serving.borrowing"
FRAGMENT = "if (part.name == BLOCK) == is_block:"
REPLACEMENT = 'if part.name != "draft head" and (part.name == BLOCK) == is_block:'
SOURCE = "lending.md 5, invariant 21"
