"""A chunk that was given up counts as read."""

MODULE = "strata.core.serving.machine"
FRAGMENT = """\
            case Reading(), Ended():
                return self._close(state.at, None)"""
REPLACEMENT = """\
            case Reading(), Ended():
                first, rows = state.chunk.start, state.chunk.rows
                session = state.at.session.grown(*state.request.prompt_ids[first : first + rows])
                return self._close(replace(state.at, session=session), None)"""
SOURCE = "lending.md 4, 7"
