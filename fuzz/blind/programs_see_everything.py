"""The twin lets programs read bytes that their launch did not declare."""

MODULE = "sim.scope"
FRAGMENT = "if not self._is_readable(start, end):"
REPLACEMENT = "if False:"
SOURCE = "docs/design.md 3, undeclared is an error"
LETS_LIVE = ("blob_of_a_group_undeclared",)
