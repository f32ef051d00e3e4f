"""The twin lets programs read bytes that their launch did not declare."""

MODULE = "sim.scope"
FRAGMENT = "if not self._readable.contains(start, end) and not any(t"
REPLACEMENT = "if False and not any(t"
SOURCE = "docs/design.md 3, undeclared is an error"
LETS_LIVE = ("blob_of_a_group_undeclared",)
