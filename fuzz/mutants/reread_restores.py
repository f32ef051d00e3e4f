"""STRATA_CKPT_REREAD is ignored."""

MODULE = "strata.core.serving.conversations"
FRAGMENT = """\
    if is_reread and restore is not None:
"""
REPLACEMENT = """\
    if False:
"""
SOURCE = "lending.md 3.5, STRATA_CKPT_REREAD"
