"""The room opens in a block whose segments are lent."""

MODULE = "strata.core.memory.policy"
FRAGMENT = "is_block_away=not segments and moves_block)"
REPLACEMENT = "is_block_away=False)"
SOURCE = "lending.md 3.1, block_deferred"
