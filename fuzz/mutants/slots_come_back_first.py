"""The cache has its slots back before the head is home."""

MODULE = "strata.core.lending.segments"
FRAGMENT = """\
    yield from (Transfer(part.extent, NOBODY, part.name) for part in away if part.name == HEAD)
    yield from give_back
"""
REPLACEMENT = """\
    yield from give_back
    yield from (Transfer(part.extent, NOBODY, part.name) for part in away if part.name == HEAD)
"""
SOURCE = "lending.md 3.2, restore in reverse"
