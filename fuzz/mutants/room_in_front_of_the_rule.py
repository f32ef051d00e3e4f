"""The room's slots come before those of the rule."""

MODULE = "strata.core.memory.read_plan"
FRAGMENT = "ring=(*self.layout.ring, *room)"
REPLACEMENT = "ring=(*room, *self.layout.ring)"
SOURCE = "lending.md 3.1, slot i for i >= rule"
