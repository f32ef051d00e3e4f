"""A loan that is not out yet cannot be given up."""

MODULE = "strata.core.lending.loan"
FRAGMENT = """\
    (LoanPhase.RESERVED, LoanPhase.RESTORING),
"""
REPLACEMENT = ""
SOURCE = "lending.md 4, 7"
