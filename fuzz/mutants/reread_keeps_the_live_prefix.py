"""A re-read begins behind what the live session has."""

MODULE = "strata.core.serving.conversations"
FRAGMENT = "counts=counts), Takeover(0, 0, park)"
REPLACEMENT = "counts=counts), Takeover(kept, kept, park)"
SOURCE = "lending.md 3.5, STRATA_CKPT_REREAD"
