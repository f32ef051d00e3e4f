"""Nobody asks which slots the entries of a read use."""

MODULE = "sim.world.loan_watch"
FRAGMENT = "        check_ring(journal"
REPLACEMENT = "        (lambda *ignored: None)(journal"
SOURCE = "lending.md 2, ring"
LETS_LIVE = ("ring_leaves_a_slot_unused",)
