"""State that stands further on in one stage counts for the shorter session."""

MODULE = "strata.core.serving.pipeline"
FRAGMENT = "is_torn=is_cut or any("
REPLACEMENT = "is_torn=any("
SOURCE = "lending.md 5, invariant 42"
