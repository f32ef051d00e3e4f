"""A conversation is listed when its copy begins."""

MODULE = "strata.core.serving.parking"
FRAGMENT = '''\
    return replace(at, parked=listed), takeover


def parked(at: Standing, takeover: Takeover) -> Standing:
    """The copy is complete."""
    assert takeover.park is not None
    return replace(at, parked=at.parked.after_parking(takeover.park))
'''
REPLACEMENT = """\
    if takeover.park is not None:
        listed = listed.after_parking(takeover.park)
    return replace(at, parked=listed), takeover


def parked(at: Standing, takeover: Takeover) -> Standing:
    return at
"""
SOURCE = "lending.md 5, invariant 38"
