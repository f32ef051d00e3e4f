"""The twin lets the host write staging that a stream may still read."""

MODULE = "sim.shadow"
FRAGMENT = """\
        self.clocks.check_write(cells, extent, by)
        self._note_write(cells, by, [UNNAMED] * len(cells))"""
REPLACEMENT = """\
        self._note_write(cells, by, [UNNAMED] * len(cells))"""
SOURCE = "docs/design.md 3, host memory uses the same shadow"
LETS_LIVE = ("layer_awaits_copy_stream",)
