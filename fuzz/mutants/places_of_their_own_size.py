"""Each stage cuts places for parked conversations by its own need."""

MODULE = "strata.core.serving.parking"
FRAGMENT = "size_of=lambda num_tokens: max(parked_bytes(stage, num_tokens) for stage in stages),"
REPLACEMENT = "size_of=lambda num_tokens: parked_bytes(plan, num_tokens),"
SOURCE = "lending.md 4.1, commit, checkpoint, park"
