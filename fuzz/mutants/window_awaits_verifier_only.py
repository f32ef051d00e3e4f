"""The first window is over before the block is home."""

MODULE = "strata.core.serving.settling"
FRAGMENT = "return (Stream.VERIFIER, Stream.COPY) if at.is_lending or at.cache.landing else"
REPLACEMENT = "return (Stream.VERIFIER, Stream.COPY) if at.cache.landing else"
SOURCE = "lending.md 5, invariant 7"
