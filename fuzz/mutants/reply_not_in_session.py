"""The last window of a reply is forgotten."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "at = replace(state.at, session=state.at.session.grown(state.token_id, *token_ids[:-1]))\n        return"
REPLACEMENT = "at = state.at\n        return"
SOURCE = "cases B6"
