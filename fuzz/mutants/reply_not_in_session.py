"""The last window of a reply is forgotten."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "return Idle(replace(_settled(state.at), session=state.at.session.grown(state.token_id))), Orders()"
REPLACEMENT = "return Idle(_settled(state.at)), Orders()"
SOURCE = "cases B6"
