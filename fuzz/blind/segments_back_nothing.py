"""The twin lets bytes be touched that no segment backs."""

MODULE = "sim.vram"
FRAGMENT = """\
            if self._mappings[place] is None:
                hole"""
REPLACEMENT = """\
            if False:
                hole"""
SOURCE = "docs/design.md 3, address space apart from physical memory"
LETS_LIVE = ("last_segment_not_mapped",)
