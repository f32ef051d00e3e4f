"""A loan that fails on its way out is taken for one that never was."""

MODULE = "strata.core.serving.borrowing"
FRAGMENT = "if loan.phase is not LoanPhase.RESERVED:"
REPLACEMENT = "if loan.phase is LoanPhase.LENT:"
SOURCE = "cases A6"
