"""The elastic loan is decided by the length of the prompt."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "not policy.no_segments(fresh_tokens)"
REPLACEMENT = "not policy.no_segments(len(request.prompt_ids))"
SOURCE = "lending.md 3.2, fresh tokens"
