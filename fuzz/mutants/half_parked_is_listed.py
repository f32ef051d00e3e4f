"""A conversation is listed when its copy begins."""

MODULE = "strata.core.serving.parking"
FRAGMENT = '''\
        """The copy is complete."""
        assert self.takeover.park is not None
        return replace(self.at, parked=self.at.parked.after_parking(self.takeover.park))
'''
REPLACEMENT = """\
        return self.at

    def __post_init__(self) -> None:
        assert self.takeover.park is not None
        if self.takeover.park not in self.at.parked.listed:
            listed = self.at.parked.after_parking(self.takeover.park)
            object.__setattr__(self, "at", replace(self.at, parked=listed))
"""
SOURCE = "lending.md 5, invariant 38"
