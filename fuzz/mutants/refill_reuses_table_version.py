"""The full table has the number of the cleared one."""

MODULE = "strata.core.serving.borrowing"
FRAGMENT = "at = replace(at, loan=loan.moved(LoanPhase.RESTORING), table_version=at.table_version + 1)"
REPLACEMENT = "at = replace(at, loan=loan.moved(LoanPhase.RESTORING))"
SOURCE = "docs/design.md 3, table(version)"
