"""The elastic loan is decided by the length of the prompt."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "has_room, has_segments = not declined.room, not declined.segments"
REPLACEMENT = (
    "whole = policy.decline(len(request.prompt_ids), is_out=at.segments is not None, moves_block=plan.moves_block)\n"
    "        has_room, has_segments = not declined.room, not whole.segments"
)
SOURCE = "lending.md 3.2, fresh tokens"
