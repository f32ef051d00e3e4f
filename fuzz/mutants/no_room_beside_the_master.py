"""The room stays shut although the block is at home."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "is_block_away=has_segments and policy.lends_block)"
REPLACEMENT = "is_block_away=has_segments)"
SOURCE = "lending.md 3.1, a read that takes no MTP loan may open it"
