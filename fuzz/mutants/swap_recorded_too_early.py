"""What a landing waits for stands for the cleared table and not for the copies."""

MODULE = "strata.core.serving.swapping"
FRAGMENT = "return at, orders.then(Orders((), (*cleared, *copies, Record(Stream.COPY, SWAPPED))))"
REPLACEMENT = "return at, orders.then(Orders((), (*cleared, Record(Stream.COPY, SWAPPED), *copies)))"
SOURCE = "lending.md 4.1, adaptive swap"
