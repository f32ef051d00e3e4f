"""The common chunk is the largest that some stage can lend."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "common = min((stage.read"
REPLACEMENT = "common = max((stage.read"
SOURCE = "lending.md 5, invariant 43"
