"""A checkpoint that a prompt goes on from is the next one to go."""

MODULE = "strata.core.serving.checkpoints"
FRAGMENT = "listed = (*(each for each in self.listed if each != checkpoint), checkpoint)"
REPLACEMENT = "listed = (checkpoint, *(each for each in self.listed if each != checkpoint))"
SOURCE = "lending.md 3.5, checkpoint bytes"
