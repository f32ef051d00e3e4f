"""A read that was given up keeps its slots."""

MODULE = "strata.core.serving.machine"
FRAGMENT = """\
        at, orders = (at, Orders()) if at.loan is None else self._reclaim(at)
        if at.is_broken"""
REPLACEMENT = """\
        orders = Orders()
        if at.is_broken"""
SOURCE = "lending.md 4, 7"
