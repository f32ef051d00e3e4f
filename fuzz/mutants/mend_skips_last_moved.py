"""After a failure the last of the blobs that were moving is not copied again."""

MODULE = "strata.core.serving.startup"
FRAGMENT = "(cache.slots[index] for index in cache.moving)"
REPLACEMENT = "(cache.slots[index] for index in cache.moving[:-1])"
SOURCE = "lending.md 4, 8"
