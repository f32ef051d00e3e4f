"""A loan is sized by the whole prompt, not by what must be read."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "read = plan.read(planned_tokens,"
REPLACEMENT = "read = plan.read(len(request.prompt_ids),"
SOURCE = "lending.md 3.1, counting is on what is read"
