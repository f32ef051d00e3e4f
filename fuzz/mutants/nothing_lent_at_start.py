"""The engine is ready with everything at home."""

MODULE = "strata.core.serving.machine"
FRAGMENT = """\
        if self.plan.zone is None:
"""
REPLACEMENT = """\
        if True:
"""
SOURCE = "lending.md 3.2, start-up loan"
