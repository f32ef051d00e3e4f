"""After a failure the counters of windows stay undefined."""

MODULE = "strata.core.serving.startup"
FRAGMENT = "for extent in (plan.verifier.window.counts, plan.verifier.window.result):"
REPLACEMENT = "for extent in (plan.verifier.window.counts,):"
SOURCE = "lending.md 4, 8"
