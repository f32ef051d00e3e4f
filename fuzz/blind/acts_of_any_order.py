"""Nobody asks which acts come when."""

MODULE = "sim.world.loan_watch"
FRAGMENT = "        check_acts(journal"
REPLACEMENT = "        (lambda *ignored, **also: None)(journal"
SOURCE = "lending.md 5, invariant 28"
LETS_LIVE = ("release_lends_slots_first",)
IN_LOANS = True
