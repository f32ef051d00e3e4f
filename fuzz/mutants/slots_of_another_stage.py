"""A stage lends the slots that the first one would."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "read = plan.read(planned_tokens"
REPLACEMENT = "read = (self.stages or (plan,))[0].read(planned_tokens"
SOURCE = "lending.md 7, slot numbers mixed across caches"
