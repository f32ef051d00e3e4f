"""The twin lets the host write staging that a stream may still read."""

MODULE = "sim.shadow"
FRAGMENT = """\
            self._staging.check_write(extent.offset_bytes, extent.end_bytes, by)

    def map"""
REPLACEMENT = """\
            pass

    def map"""
SOURCE = "docs/design.md 3, host memory uses the same shadow"
LETS_LIVE = ("layer_awaits_copy_stream",)
