"""A refill that failed may not be tried again."""

MODULE = "strata.core.lending.loan"
FRAGMENT = """\
    (LoanPhase.RESTORING, LoanPhase.RESTORING),
"""
REPLACEMENT = ""
SOURCE = "cases A6"
