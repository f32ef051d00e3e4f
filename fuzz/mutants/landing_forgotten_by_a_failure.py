"""What was landing when a command failed is taken for landed."""

MODULE = "strata.core.serving.settling"
FRAGMENT = "moving=at.cache.moving + at.cache.landing,"
REPLACEMENT = "moving=at.cache.moving,"
SOURCE = "lending.md 4, 8"
