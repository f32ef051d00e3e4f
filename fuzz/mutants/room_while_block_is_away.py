"""The room opens in a block whose segments are lent."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "is_block_away=has_segments and policy.lends_block)"
REPLACEMENT = "is_block_away=False)"
SOURCE = "lending.md 3.1, block_deferred"
