"""Nobody asks how many tokens a chunk has room for."""

MODULE = "sim.world.loan_watch"
FRAGMENT = "            check_chunk(journal"
REPLACEMENT = "            (lambda *ignored, **also: None)(journal"
SOURCE = "lending.md 3.2, 6"
LETS_LIVE = ("retained_geometry_planned_again", "start_geometry_kept_for_good")
IN_LOANS = True
