"""The oldest of the parked conversations is taken for the longest."""

MODULE = "strata.core.serving.conversations"
FRAGMENT = (
    "return max(reversed(self.listed), key=lambda parked: parked.session.read_from(prompt_ids, kinds), default=None)"
)
REPLACEMENT = "return next(iter(self.listed), None)"
SOURCE = "lending.md 4, 2"
