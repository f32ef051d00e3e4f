"""Each blob goes into the slot behind the one that was given to it."""

MODULE = "strata.core.serving.swapping"
FRAGMENT = "copies = copy_groups(Stream.COPY, blobs_home(plan, (cache.slots[index] for index in cache.moving)))"
REPLACEMENT = """\
moved = [replace(cache.slots[i], extent=cache.slots[i - 1].extent) for i in cache.moving]
    copies = copy_groups(Stream.COPY, blobs_home(plan, moved))
"""
SOURCE = "lending.md 4.1, adaptive swap"
