"""Nobody compares the reply with the model."""

MODULE = "sim.world.replies"
FRAGMENT = "            if token != right:"
REPLACEMENT = "            if False:"
SOURCE = "docs/design.md 3, expected content comes from the harness"
LETS_LIVE = ("counts_not_cleared",)
