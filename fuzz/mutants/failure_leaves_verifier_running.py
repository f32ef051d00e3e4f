"""After a failure the windows under way are not waited for."""

MODULE = "strata.core.serving.machine"
FRAGMENT = "return self._close(broken(self.plan, state.at), None, (*PROMPT_STREAMS, Stream.VERIFIER, *drafter))"
REPLACEMENT = "return self._close(broken(self.plan, state.at), None, PROMPT_STREAMS)"
SOURCE = "lending.md 5, invariant 17"
