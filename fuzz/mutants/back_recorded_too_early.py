"""The event of the refill stands before the copies."""

MODULE = "strata.core.serving.borrowing"
FRAGMENT = "(*_copies_home(plan, loan), Record(Stream.COPY, BACK), Wait"
REPLACEMENT = "(Record(Stream.COPY, BACK), *_copies_home(plan, loan), Wait"
SOURCE = "lending.md 4.1, refill signals back"
