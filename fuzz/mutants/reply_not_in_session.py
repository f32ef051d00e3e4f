"""The last window of a reply is forgotten."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "at = replace(state.at, session=state.at.session.grown(state.token_id, *token_ids[:-1]))\n        committed"
REPLACEMENT = "at = state.at\n        committed"
SOURCE = "cases B6"
