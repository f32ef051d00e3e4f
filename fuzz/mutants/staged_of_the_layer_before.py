"""The row of addresses is that of the layer before."""

MODULE = "strata.core.serving.staging"
FRAGMENT = "{**resident, **staged}, layer=layer))"
REPLACEMENT = "{**resident, **staged}, layer=max(0, layer - 1)))"
SOURCE = "lending.md 2, address table"
