"""The block is not copied home behind an elastic loan."""

MODULE = "strata.core.serving.borrowing"
FRAGMENT = "if (part.name == BLOCK) == is_block:"
REPLACEMENT = "if part.name != BLOCK and not is_block:"
SOURCE = "lending.md 5, invariant 21"
