"""A draft counts as accepted, whatever was sampled."""

MODULE = "strata.engine.runner"
FRAGMENT = "words[SAMPLED_WORD] if rows > 1 else 1"
REPLACEMENT = "rows"
SOURCE = "2.7 of the drafts: accept the longest prefix equal to what the trunk samples"
