"""What must be true of a plan, asked of each before anything is opened with it. Knows nothing of how it was made."""

from strata.core.extent import Extent
from strata.core.memory.fixed import BLOCK
from strata.core.memory.planner import Plan
from strata.core.memory.scratch import SCRATCH


def check_plan(plan: Plan) -> None:
    """Regions follow one another without overlap and end within the arena; every slot and buffer lies in its own."""
    end_bytes = 0
    for region in plan.regions:
        assert region.extent.offset_bytes >= end_bytes, region
        end_bytes = region.extent.end_bytes
    assert end_bytes <= plan.arena_bytes, (end_bytes, plan.arena_bytes)
    extents = {region.name: region.extent for region in plan.regions}
    assert all(extents["cache"].contains(slot.extent) for slot in plan.slots)
    arena = extents["cache" if plan.lendable else "prompt"]
    arena = Extent(arena.offset_bytes, arena.size_bytes + plan.behind_bytes)
    assert all(arena.contains(slot) for slot in (plan.prompt.buffers.header, *plan.prompt.ring))
    work = extents.get(SCRATCH, arena)
    assert all(work.contains(access.extent) for access in plan.prompt.scratch.values()), plan.prompt.scratch
    for name, layers in (("kv", plan.kv), ("state", plan.state)):
        assert all(extents[name].contains(layer) for layer in layers if layer.size_bytes)
    assert all(extents[BLOCK].contains(slot) for slot in plan.room)
    assert plan.zone is None or extents["cache"].end_bytes == plan.arena_bytes, plan.zone
