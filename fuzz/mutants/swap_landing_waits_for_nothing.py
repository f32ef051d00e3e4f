"""The table that names the new blobs is published while they are copied."""

MODULE = "strata.core.serving.swapping"
FRAGMENT = "return at, Orders((), (Wait(Stream.VERIFIER, SWAPPED),)).then(published)"
REPLACEMENT = "return at, published"
SOURCE = "lending.md 4.1, adaptive swap"
