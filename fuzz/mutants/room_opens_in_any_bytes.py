"""Opening the room leaves the block undefined."""

MODULE = "strata.core.lending.room"
FRAGMENT = "Transfer(self.extent, BLOCK, PROMPT, in_place=True)"
REPLACEMENT = "Transfer(self.extent, BLOCK, PROMPT)"
SOURCE = "lending.md 3.1, opening changes a count and nothing else"
