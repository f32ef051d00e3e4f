"""The ring narrows where its first slots may still be read."""

MODULE = "strata.core.memory.ring"
FRAGMENT = "narrows_at=-(-first // self.num_slots) * self.num_slots)"
REPLACEMENT = "narrows_at=first)"
SOURCE = "lending.md 5, invariant 13"
