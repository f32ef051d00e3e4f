"""The full table is published before the blobs are home."""

MODULE = "strata.core.serving.borrowing"
FRAGMENT = "orders = Orders((), (*copies, Record(Stream.COPY, BACK), Wait(Stream.VERIFIER, BACK))).then(orders)"
REPLACEMENT = "orders = orders.then(Orders((), (*copies, Record(Stream.COPY, BACK), Wait(Stream.VERIFIER, BACK))))"
SOURCE = "lending.md 4.1, table upload after refill"
