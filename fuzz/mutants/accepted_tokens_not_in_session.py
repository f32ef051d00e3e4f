"""Of a window's tokens the session holds the first."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "at = replace(at, session=at.session.grown(state.token_id, *token_ids[:-1]))\n        num_left"
REPLACEMENT = "at = replace(at, session=at.session.grown(state.token_id))\n        num_left"
SOURCE = "lending.md 5, 38: cell i holds the state of ids[i]"
