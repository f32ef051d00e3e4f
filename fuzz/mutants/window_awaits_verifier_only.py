"""The first window is over before the block is home."""

MODULE = "strata.core.serving.settling"
FRAGMENT = "return (Stream.VERIFIER, Stream.COPY) if at.is_lending else (Stream.VERIFIER,)"
REPLACEMENT = "return (Stream.VERIFIER,)"
SOURCE = "lending.md 5, invariant 7"
