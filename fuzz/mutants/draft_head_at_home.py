"""The draft head is not lent with the block."""

MODULE = "strata.core.memory.fixed"
FRAGMENT = "drafting = (BLOCK, DRAFT_HEAD) if"
REPLACEMENT = "drafting = (BLOCK,) if"
SOURCE = "lending.md 3.2, STRATA_PREFILL_MTP_LOAN"
