"""The live session is parked once the other one lies over it."""

MODULE = "strata.core.serving.parking"
FRAGMENT = """\
    copies = _copies(Stream.VERIFIER, (CopyPair(*pair) for pair in sides))
    return Parking(at, request, takeover), copies.then(notice)"""
REPLACEMENT = """\
    back = restore(plan, at, request, takeover)[1].commands if takeover.restore else ()
    copies = _copies(Stream.VERIFIER, (CopyPair(*pair) for pair in sides))
    return Parking(at, request, takeover), Orders((), (*back, *copies.commands)).then(notice)"""
SOURCE = "lending.md 5, invariant 41"
