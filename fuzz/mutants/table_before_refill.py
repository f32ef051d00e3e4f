"""The full table is published before the blobs are home."""

MODULE = "strata.core.serving.borrowing"
FRAGMENT = "(*home, publish), transfers"
REPLACEMENT = "(publish, *home), transfers"
SOURCE = "lending.md 4.1, table upload after refill"
