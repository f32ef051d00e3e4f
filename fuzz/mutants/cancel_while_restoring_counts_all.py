"""A client leaves while a conversation comes back, and its whole prompt counts as read."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "return Idle(restored(state.at, state.takeover, state.request)), Orders()"
REPLACEMENT = """\
at = restored(state.at, state.takeover, state.request)
                rest = state.request.prompt_ids[len(at.session.ids) :]
                return Idle(replace(at, session=at.session.grown(*rest))), Orders()"""
SOURCE = "lending.md 4, 7"
