"""The verifier does not wait for the refill."""

MODULE = "strata.core.serving.borrowing"
FRAGMENT = "Record(Stream.COPY, BACK), Wait(Stream.VERIFIER, BACK))"
REPLACEMENT = "Record(Stream.COPY, BACK))"
SOURCE = "lending.md 4.1, table upload after refill"
