"""With a room, scratch lies where the ring goes on behind the rule."""

MODULE = "strata.core.memory.read_plan"
FRAGMENT = "return replace(self, layout=replace(self.layout, ring=(*self.layout.ring, *room)))"
REPLACEMENT = """\
layout = replace(self.layout, ring=(*self.layout.ring, *room))
        if layout.slab_bytes:
            start = room[0].offset_bytes
            there = {name: replace(each.extent, offset_bytes=start) for name, each in layout.scratch.items()}
            places = {name: replace(each, extent=there[name]) for name, each in layout.scratch.items()}
            layout = replace(layout, scratch=places)
        return replace(self, layout=layout)"""
SOURCE = "lending.md 5, invariants 35 and 43"
