"""A re-read begins behind what the live session has."""

MODULE = "strata.core.serving.conversations"
FRAGMENT = "return after, Takeover(0, 0, park)"
REPLACEMENT = "return after, Takeover(kept, kept, park)"
SOURCE = "lending.md 3.5, STRATA_CKPT_REREAD"
