"""The first window does not take the lent slots back."""

MODULE = "strata.core.serving.machine"
FRAGMENT = """\
        at, orders = (at, Orders()) if at.loan is None else self._reclaim(at)
        token ="""
REPLACEMENT = """\
        orders = Orders()
        token ="""
SOURCE = "lending.md 5, invariant 7"
