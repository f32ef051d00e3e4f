"""The room stays shut although the block is at home."""

MODULE = "strata.core.memory.policy"
FRAGMENT = "is_block_away=not segments and moves_block)"
REPLACEMENT = "is_block_away=not segments)"
SOURCE = "lending.md 3.1, a read that takes no MTP loan may open it"
