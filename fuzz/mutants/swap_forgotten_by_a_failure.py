"""What was being copied when a command failed is taken for copied."""

MODULE = "strata.core.serving.settling"
FRAGMENT = "moving=at.cache.moving + at.cache.landing,"
REPLACEMENT = "moving=(),"
SOURCE = "lending.md 4, 8"
