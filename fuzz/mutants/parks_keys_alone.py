"""V is left on the card."""

MODULE = "strata.core.serving.parking"
FRAGMENT = 'for half, extent in zip("kv", cells, strict=True):'
REPLACEMENT = 'for half, extent in zip("k", cells[:1], strict=True):'
SOURCE = "cases B2"
