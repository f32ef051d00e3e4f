"""A client leaves while a conversation comes back, and its whole prompt counts as read."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "return Idle(state.arrived()), Orders()"
REPLACEMENT = """\
return Idle(
                    replace(state.arrived(), session=replace(state.at.session, ids=state.request.prompt_ids))
                    if isinstance(state, Restoring)
                    else state.arrived()
                ), Orders()"""
SOURCE = "lending.md 4, 7"
