"""A conversation that windows read from its start goes on from the state of the one before."""

MODULE = "strata.core.serving.short_reads"
FRAGMENT = "*(clear_state(plan, Stream.VERIFIER) if start == 0 else ()),"
REPLACEMENT = ""
SOURCE = "lending.md 3, recurrent state"
