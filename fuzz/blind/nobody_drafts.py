"""No drafter reads its head at rest."""

MODULE = "sim.world.checks"
FRAGMENT = "    if card.lent.block.size_bytes:"
REPLACEMENT = "    if False:"
SOURCE = "lending.md 5, invariant 21"
LETS_LIVE = ("draft_head_not_restored",)
IN_LOANS = True
