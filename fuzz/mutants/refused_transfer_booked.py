"""A transfer that was refused is in the books."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "done = at.ordered[: event.num_transfers] if isinstance(event, Broke) else at.ordered"
REPLACEMENT = "done = at.ordered"
SOURCE = "cases A6"
