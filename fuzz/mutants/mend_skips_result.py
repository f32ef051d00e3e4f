"""After a failure the counters of windows stay undefined."""

MODULE = "strata.core.serving.startup"
FRAGMENT = "for extent in (window.counts, window.result, window.usage) if"
REPLACEMENT = "for extent in (window.counts, window.usage) if"
SOURCE = "lending.md 4, 8"
