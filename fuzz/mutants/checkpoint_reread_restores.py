"""STRATA_CKPT_REREAD does not hold for checkpoints."""

MODULE = "strata.core.serving.conversations"
FRAGMENT = "    if is_reread and restore is not None:"
REPLACEMENT = "    if is_reread and isinstance(restore, Parked):"
SOURCE = "lending.md 3.5, STRATA_CKPT_REREAD"
