"""A loan is sized by the whole prompt, not by what must be read."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "read = self.plan.read(path_tokens)"
REPLACEMENT = "read = self.plan.read(len(request.prompt_ids))"
SOURCE = "lending.md 3.1, counting is on what is read"
