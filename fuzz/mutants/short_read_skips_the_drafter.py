"""Windows that read a prompt leave no cells for the drafter."""

MODULE = "strata.core.serving.short_reads"
FRAGMENT = "if recipe.plan.draft else ()"
REPLACEMENT = "if False else ()"
SOURCE = "lending.md 4, 4"
