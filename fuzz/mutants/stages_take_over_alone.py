"""Each stage decides by its own kinds of state what it takes over."""

MODULE = "strata.core.serving.parking"
FRAGMENT = "kinds = frozenset[StateKind]().union(*(stage.inventory.state_kinds for stage in stages))"
REPLACEMENT = "kinds = plan.inventory.state_kinds"
SOURCE = "lending.md 5, invariant 42"
