"""A refill that is repeated takes bytes back that are back."""

MODULE = "strata.core.serving.borrowing"
FRAGMENT = """\
transfers = (loan.give_back,) if ledger.is_owner(PROMPT, loan.extent) else ()
    assert transfers or ledger.is_owner(CACHE, loan.extent), (loan, ledger)"""
REPLACEMENT = "transfers = (loan.give_back,)"
SOURCE = "cases A6"
