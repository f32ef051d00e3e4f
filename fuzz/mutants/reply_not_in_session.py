"""The last window of a reply is forgotten."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "at = replace(at, session=at.session.grown(state.token_id, *token_ids[:-1]))\n            committed"
REPLACEMENT = "committed"
SOURCE = "cases B6"
