"""The host takes expert e for expert e + 1."""

MODULE = "strata.engine.results"
FRAGMENT = 'enumerate(router_counts.cast("i")) if rows)'
REPLACEMENT = 'enumerate(router_counts.cast("i")[1:], 1) if rows)'
SOURCE = "lending.md 2, ring"
