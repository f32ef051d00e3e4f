"""A refill that is repeated takes bytes back that are back."""

MODULE = "strata.core.serving.borrowing"
FRAGMENT = (
    "give_back = (loan.give_back,) if at.ledger.is_owner(PROMPT, loan.extent) else ()\n"
    "        assert give_back or at.ledger.is_owner(CACHE, loan.extent), (loan, at.ledger)"
)
REPLACEMENT = "give_back = (loan.give_back,)"
SOURCE = "cases A6"
