"""Any bytes may keep what is in them when they change hands."""

MODULE = "sim.world.loans"
FRAGMENT = "self._room_word(act) if in_place else"
REPLACEMENT = "self._room_word(act) if in_place and giver != CACHE else"
SOURCE = "lending.md 5, invariant 5"
LETS_LIVE = ("slots_lent_in_place",)
IN_LOANS = True
