"""A slab of the same size is taken for the same slab, wherever the tail lies by now."""

MODULE = "strata.core.memory.read_plan"
FRAGMENT = """\
        return ReadPlan(layout, extent, lent, lent_extent, ring_slots)
"""
REPLACEMENT = """\
        if layout.slab_bytes:
            kept = plan_read.__dict__.setdefault(layout.slab_bytes, layout.scratch)
            layout = replace(layout, scratch=kept)
        return ReadPlan(layout, extent, lent, lent_extent, ring_slots)
"""
SOURCE = "lending.md 5, invariant 35"
