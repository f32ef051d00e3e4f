"""The state behind a window is copied on a stream that does not wait for it."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "save_state(self.plan, at, Stream.VERIFIER)"
REPLACEMENT = "save_state(self.plan, at, Stream.COPY)"
SOURCE = "lending.md 4.1, commit, checkpoint, park"
