"""A chunk that was given up counts as read."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "return self._close(read_until(state.at, state.chunk), None)"
REPLACEMENT = (
    "first, rows = state.chunk.start, state.chunk.rows\n"
    "                session = state.at.session.grown(*state.request.prompt_ids[first : first + "
    "rows])\n"
    "                return self._close(replace(state.at, session=session), None)"
)
SOURCE = "lending.md 4, 7"
