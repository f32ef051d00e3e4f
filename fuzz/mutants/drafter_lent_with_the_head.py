"""The block is lent unasked."""

MODULE = "strata.core.memory.fixed"
FRAGMENT = "drafting = (BLOCK, DRAFT_HEAD) if policy.lends_block else ()"
REPLACEMENT = "drafting = (BLOCK, DRAFT_HEAD)"
SOURCE = "lending.md 3.2, STRATA_PREFILL_MTP_LOAN"
