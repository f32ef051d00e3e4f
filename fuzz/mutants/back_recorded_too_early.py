"""The event of the refill stands before the copies."""

MODULE = "strata.core.serving.borrowing"
FRAGMENT = "(*copies, Record(Stream.COPY, BACK), Wait"
REPLACEMENT = "(Record(Stream.COPY, BACK), *copies, Wait"
SOURCE = "lending.md 4.1, refill signals back"
