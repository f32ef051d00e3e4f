"""The last weight of a region is not copied home."""

MODULE = "strata.core.serving.masters"
FRAGMENT = """\
    for master in masters:
        start"""
REPLACEMENT = """\
    for master in masters[: max(1, len(masters) - 1)]:
        start"""
SOURCE = "lending.md 5, invariant 21"
