"""The runner goes on when one of several streams is at rest."""

MODULE = "strata.engine.runner"
FRAGMENT = "missing.discard(event.tag)"
REPLACEMENT = "missing.clear()"
SOURCE = "lending.md 5, invariant 17"
