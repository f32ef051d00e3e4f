"""A parked conversation that has the whole prompt leaves nothing for the window."""

MODULE = "strata.core.serving.conversations"
FRAGMENT = "return after, Takeover(kept, best.session.read_from(prompt_ids, kinds), park, best)"
REPLACEMENT = "return after, Takeover(kept, best.session.usable(prompt_ids, kinds), park, best)"
SOURCE = "lending.md 5, invariant 39"
