"""A layout is chosen whose tail is too short for its slab."""

MODULE = "strata.core.memory.read_plan"
FRAGMENT = "ring_slots=rule, has_slab=scratch is None)"
REPLACEMENT = "ring_slots=rule, has_slab=False)"
SOURCE = "lending.md 5, invariants 11 and 37"
