"""The twin lets bytes be touched that no segment backs."""

MODULE = "sim.vram"
FRAGMENT = "        if None in self.mappings[first : last + 1]:"
REPLACEMENT = "        if False:"
SOURCE = "docs/design.md 3, address space apart from physical memory"
LETS_LIVE = ("last_segment_not_mapped",)
