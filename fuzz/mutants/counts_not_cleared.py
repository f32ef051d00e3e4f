"""Token counts of the last reply remain."""

MODULE = "strata.core.serving.inputs"
FRAGMENT = 'return uploads, (copy, Fill(Stream.VERIFIER, Access(window.counts, "verifier"), 0))'
REPLACEMENT = "return uploads, (copy,)"
SOURCE = "lending.md 7, request sampling lost"
