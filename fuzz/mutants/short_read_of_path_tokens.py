"""What windows read is counted without the last token."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "if policy.is_short(fresh_tokens):"
REPLACEMENT = "if policy.is_short(max(2, path_tokens)):"
SOURCE = "lending.md 4, 4"
