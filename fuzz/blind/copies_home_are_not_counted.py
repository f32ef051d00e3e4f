"""Nobody asks what went home into the block."""

MODULE = "sim.world.loan_watch"
FRAGMENT = "        check_homes(journal"
REPLACEMENT = "        (lambda *ignored: None)(journal"
SOURCE = "lending.md 3.1, of dirty slots only"
LETS_LIVE = ("room_home_twice",)
IN_LOANS = True
