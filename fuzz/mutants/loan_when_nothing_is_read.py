"""A request that reads nothing borrows."""

MODULE = "strata.core.serving.machine"
FRAGMENT = """\
        if path_tokens == 0:
            return self._first_window(at, request)
        read = self.plan.read(path_tokens)"""
REPLACEMENT = """\
        read = self.plan.read(max(1, path_tokens))
        if path_tokens == 0 and not read.lent:
            return self._first_window(at, request)"""
SOURCE = "lending.md 4, 4"
