"""Blobs are copied home into bytes that are still lent."""

MODULE = "strata.core.serving.borrowing"
FRAGMENT = """\
transfers = (loan.give_back,) if ledger.is_owner(PROMPT, loan.extent) else ()
    assert transfers or ledger.is_owner(CACHE, loan.extent), (loan, ledger)"""
REPLACEMENT = "transfers = ()"
SOURCE = "lending.md 5, invariant 1"
