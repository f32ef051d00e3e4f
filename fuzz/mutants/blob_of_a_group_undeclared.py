"""A launch does not declare the last blob that it reads."""

MODULE = "strata.core.serving.launches"
FRAGMENT = "lane.whole(row), *blobs)"
REPLACEMENT = "lane.whole(row), *blobs[:-1])"
SOURCE = "docs/design.md 3, every command lists what it reads"
