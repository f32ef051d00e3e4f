"""The last of the exchanged blobs is not copied."""

MODULE = "strata.core.serving.swapping"
FRAGMENT = "blobs_home(plan, (cache.slots[index] for index in cache.moving))"
REPLACEMENT = "blobs_home(plan, [cache.slots[index] for index in cache.moving][:-1] or cache.slots[:1])"
SOURCE = "lending.md 4.1, adaptive swap"
