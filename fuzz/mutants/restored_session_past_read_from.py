"""The session holds all that was parked, although only a part came back."""

MODULE = "strata.core.serving.parking"
FRAGMENT = "session = Session(self.request.prompt_ids[: self.takeover.read_from])"
REPLACEMENT = "session = Session(self.request.prompt_ids) if isinstance(restored, Checkpoint) else restored.session"
SOURCE = "lending.md 5, invariant 38"
