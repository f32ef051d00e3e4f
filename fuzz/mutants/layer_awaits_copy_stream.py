"""Staging is written again although the prompt stream may still read it."""

MODULE = "strata.core.serving.layers"
FRAGMENT = "    at, notice = notify(state.at, (Stream.PROMPT,))"
REPLACEMENT = "    at, notice = notify(state.at, (Stream.COPY,))"
SOURCE = "lending.md 5, invariant 16"
