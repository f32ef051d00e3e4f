"""What came back is the next to go."""

MODULE = "strata.core.serving.conversations"
FRAGMENT = """\
num_restored + 1)
        return replace(self, listed=(*self.listed, parked), counts=counts)"""
REPLACEMENT = """\
num_restored + 1)
        return replace(self, listed=(parked, *self.listed), counts=counts)"""
SOURCE = "lending.md 3.5, parked bytes"
