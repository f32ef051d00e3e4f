"""A move of a segment that was refused is in the books."""

MODULE = "strata.core.serving.standing"
FRAGMENT = "backing=self.backing.after(done)"
REPLACEMENT = "backing=self.backing.after(self.ordered)"
SOURCE = "lending.md 3.2, a failure at any step ends with everything resident"
