"""A transfer that was refused is in the books."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "state.at.booked(event.num_acts) if isinstance(event, steps.Broke) else state.at.reached()"
REPLACEMENT = "state.at.booked()"
SOURCE = "cases A6"
