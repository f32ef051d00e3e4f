"""A window reads the tokens behind those that it stands at."""

MODULE = "strata.core.serving.short_reads"
FRAGMENT = "prompt_ids[start : start + rows])]"
REPLACEMENT = "prompt_ids[start + 1 : start + rows + 1])]"
SOURCE = "lending.md 4, 4"
