"""A checkpoint is listed while its copy is under way."""

MODULE = "strata.core.serving.checkpoints"
FRAGMENT = (
    "        return replace(self, listed=self.listed[len(victims) :], arriving=placed, num_evicted=num_evicted), placed"
)
REPLACEMENT = """\
        listed = (*self.listed[len(victims) :], placed)
        return replace(self, listed=listed, num_evicted=num_evicted), placed"""
SOURCE = "lending.md 4.1, commit, checkpoint, park"
