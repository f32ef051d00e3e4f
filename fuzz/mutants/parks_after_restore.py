"""The live session is parked once the other one lies over it."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "park(self.plan, takeover.park).then(notice)"
REPLACEMENT = (
    "(restore(self.plan, takeover) if takeover.restore else Orders()).then(park(self.plan, takeover.park)).then(notice)"
)
SOURCE = "lending.md 5, invariant 41"
