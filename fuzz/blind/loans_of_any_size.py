"""Nobody asks how much is lent, and what for."""

MODULE = "sim.world.loan_watch"
FRAGMENT = "        check_loan("
REPLACEMENT = "        (lambda *ignored, **also: None)("
SOURCE = "lending.md 3.4"
LETS_LIVE = ("lends_always_the_most",)
