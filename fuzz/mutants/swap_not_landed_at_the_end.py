"""A reply that ends beside a swap leaves it under way."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "        if at.cache.moving:\n            at, landing"
REPLACEMENT = "        if False:\n            at, landing"
SOURCE = "lending.md 4, 3"
