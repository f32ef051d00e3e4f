"""The bytes behind the last slot are not lent."""

MODULE = "strata.core.lending.loan"
FRAGMENT = "return Transfer(self.extent, CACHE, PROMPT)"
REPLACEMENT = """\
start = self.extent.offset_bytes
        end = self.slots[-1].extent.end_bytes
        return Transfer(Extent(start, end - start), CACHE, PROMPT)"""
SOURCE = "lending.md 5, invariant 10"
