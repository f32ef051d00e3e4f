"""The room is decided by the length of the prompt."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "has_room = not policy.no_room(fresh_tokens,"
REPLACEMENT = "has_room = not policy.no_room(len(request.prompt_ids),"
SOURCE = "lending.md 5, invariant 18"
