"""A parked conversation with recurrent state is taken up before its end."""

MODULE = "strata.core.serving.conversations"
FRAGMENT = "key=lambda parked: parked.session.read_from(prompt_ids, kinds), default=None)"
REPLACEMENT = "key=lambda parked: parked.session.read_from(prompt_ids), default=None)"
SOURCE = "cases B1"
