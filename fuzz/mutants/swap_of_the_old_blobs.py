"""The blobs that were there are copied into the cleared slots once more."""

MODULE = "strata.core.serving.swapping"
FRAGMENT = "copies = copy_groups(Stream.COPY, blobs_home(plan, (cache.slots[index] for index in cache.moving)))"
REPLACEMENT = "copies = copy_groups(Stream.COPY, blobs_home(plan, (plan.slots[index] for index in cache.moving)))"
SOURCE = "lending.md 4.1, adaptive swap"
