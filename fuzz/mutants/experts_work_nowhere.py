"""Experts do not get what the router left for them."""

MODULE = "strata.core.serving.launches"
FRAGMENT = """\
    lane = lane.of(programs.EXPERTS)
"""
REPLACEMENT = ""
SOURCE = "lending.md 3.3, what prompt kernels ask for"
